SELECT min(next_at) FROM schedules WHERE paused = 0 AND next_at > ? AND next_at < ?
