SELECT finished_at, seq FROM tasks WHERE state = ? AND finished_at < ? ORDER BY finished_at, seq LIMIT ?
