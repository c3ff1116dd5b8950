INSERT INTO windlass.workers (id, namespace, host, version, pool_size, queues, kinds, dead_after, started_at, heartbeat_at, secret)
VALUES ($1, $2, $3, $4, $5, $6::text::json, $7::text::json, $8, $9, $9, $10)
ON CONFLICT (id) DO UPDATE SET
    namespace = excluded.namespace, host = excluded.host, version = excluded.version, pool_size = excluded.pool_size,
    queues = excluded.queues, kinds = excluded.kinds, dead_after = excluded.dead_after,
    started_at = excluded.started_at, heartbeat_at = excluded.heartbeat_at, secret = excluded.secret
-- As `NewWorker::check_replaces` decides it.
WHERE excluded.secret IS NULL OR workers.secret = excluded.secret
