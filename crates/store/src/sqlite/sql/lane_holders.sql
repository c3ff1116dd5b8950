SELECT * FROM task_rows WHERE namespace = ? AND lane = ? AND slot = 1 ORDER BY seq
