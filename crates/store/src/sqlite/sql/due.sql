SELECT id FROM tasks WHERE due_at <= ? ORDER BY due_at, seq LIMIT ?
