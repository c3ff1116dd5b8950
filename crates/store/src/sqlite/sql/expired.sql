SELECT finished_at, seq, namespace, queue, kind FROM tasks WHERE state = ? AND finished_at < ?
ORDER BY finished_at, seq LIMIT ?
