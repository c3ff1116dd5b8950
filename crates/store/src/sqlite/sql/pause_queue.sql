INSERT INTO paused_queues (namespace, queue) VALUES (?, ?) ON CONFLICT DO NOTHING
