-- The sum keeps the planner from walking all of live in the order of seq.
SELECT t.id, l.lease FROM (
    SELECT l.seq, l.lease FROM windlass.live l LEFT JOIN windlass.workers w ON w.id = l.worker
    WHERE l.worker IS NOT NULL AND (w.id IS NULL OR {alive_until} <= $1) ORDER BY l.seq + 0 LIMIT $2
) l JOIN windlass.tasks t ON t.seq = l.seq ORDER BY l.seq
