DELETE FROM tasks WHERE seq = ?
