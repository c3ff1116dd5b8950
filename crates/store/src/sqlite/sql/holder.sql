SELECT heartbeat_at, dead_after FROM workers WHERE id = ?
