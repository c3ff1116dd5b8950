SELECT * FROM task_rows WHERE id > ? AND id <= ? AND is_step = 1 ORDER BY id
