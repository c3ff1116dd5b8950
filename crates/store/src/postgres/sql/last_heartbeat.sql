SELECT max(heartbeat_at) FROM windlass.workers
