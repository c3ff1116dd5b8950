SELECT id, namespace, host, version, pool_size, queues::text, kinds::text, dead_after, started_at, heartbeat_at
FROM windlass.workers ORDER BY id
