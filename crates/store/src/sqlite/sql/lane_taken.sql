SELECT count(*) FROM tasks WHERE namespace = ? AND lane = ? AND slot = 1
