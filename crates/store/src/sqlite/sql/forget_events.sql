-- Moves the place since which everything is known behind old events.
UPDATE listening SET since = max(since, coalesce(
    (SELECT max(seq) FROM (SELECT seq, at FROM events ORDER BY seq LIMIT ?2) WHERE at < ?1), 0))
