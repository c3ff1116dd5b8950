DELETE FROM workers WHERE heartbeat_at + dead_after < ?
