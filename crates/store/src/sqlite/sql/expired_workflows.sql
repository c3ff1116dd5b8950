SELECT finished_at, seq, id FROM workflows WHERE state = ? AND finished_at < ? ORDER BY finished_at, seq LIMIT ?
