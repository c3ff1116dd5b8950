INSERT INTO windlass.paused_queues (namespace, queue) VALUES ($1, $2) ON CONFLICT DO NOTHING
