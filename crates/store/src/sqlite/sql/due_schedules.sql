-- Without a limit: whoever reads it stops when there is enough.
SELECT * FROM schedules WHERE paused = 0 AND next_at <= ? ORDER BY next_at, namespace, name
