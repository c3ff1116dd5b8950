SELECT * FROM task_rows WHERE seq > ? ORDER BY seq
