INSERT INTO counts (namespace, queue, kind, state, tasks) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT DO UPDATE SET tasks = tasks + excluded.tasks
