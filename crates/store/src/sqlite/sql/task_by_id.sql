SELECT * FROM task_rows WHERE id = ?
