SELECT id, state FROM tasks WHERE namespace = ? AND kind = ? AND key = ?
