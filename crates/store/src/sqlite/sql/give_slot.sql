UPDATE tasks SET slot = 1 WHERE seq = ?
