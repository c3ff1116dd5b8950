SELECT max(heartbeat_at) FROM workers
