SELECT min(due_at) FROM tasks WHERE due_at > ?
