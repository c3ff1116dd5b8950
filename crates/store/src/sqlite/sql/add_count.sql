INSERT INTO counts (namespace, queue, kind, is_step, state, tasks) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT DO UPDATE SET tasks = tasks + excluded.tasks
