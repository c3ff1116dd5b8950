SELECT min(heartbeat_at + dead_after) FROM workers WHERE heartbeat_at + dead_after > ?
