DELETE FROM tasks WHERE id >= ? AND id <= ? AND is_step = 1
