SELECT id, namespace, host, version, pool_size, queues::text, kinds::text, dead_after, started_at, heartbeat_at, secret
FROM windlass.workers ORDER BY id
