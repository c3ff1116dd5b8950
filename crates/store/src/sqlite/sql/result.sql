SELECT result FROM tasks WHERE seq = ?
