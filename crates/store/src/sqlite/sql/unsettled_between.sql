SELECT * FROM task_rows WHERE id >= ? AND id <= ? AND finished_at IS NULL AND is_step = 1 ORDER BY id
