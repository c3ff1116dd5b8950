SELECT * FROM task_rows WHERE seq = ?
