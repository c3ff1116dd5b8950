SELECT 1 FROM tasks WHERE id >= ? AND id <= ? LIMIT 1
