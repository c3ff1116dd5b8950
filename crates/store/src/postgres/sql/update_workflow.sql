UPDATE windlass.workflows SET
    state = $2, paused = $3, waiting = $4, nested = $5, active = $6, timed = $7, done = $8, skipped = $9, cancelled = $10, failed = $11,
    owner = $12, owned_until = $13, updated_at = $14, finished_at = $15, entries = $16, retries = $17, rank = $18
WHERE seq = $1
