SELECT finished_at, seq, namespace, queue, kind FROM tasks WHERE state = ? AND finished_at < ? AND is_step = 0
ORDER BY finished_at, seq LIMIT ?
