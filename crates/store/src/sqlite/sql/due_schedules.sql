-- Without a limit: the reader stops when it has enough.
SELECT * FROM schedules WHERE paused = 0 AND next_at <= ? ORDER BY next_at, namespace, name
