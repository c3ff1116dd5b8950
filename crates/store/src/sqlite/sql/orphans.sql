-- The plus keeps the planner from walking the whole table in the order of seq.
SELECT t.id, t.lease FROM tasks t LEFT JOIN workers w ON w.id = t.worker
WHERE t.worker IS NOT NULL AND t.finished_at IS NULL AND (w.id IS NULL OR w.heartbeat_at + w.dead_after <= ?)
ORDER BY +t.seq LIMIT ?
