SELECT result FROM tasks WHERE id = ?
