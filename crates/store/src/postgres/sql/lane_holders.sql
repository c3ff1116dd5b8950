SELECT r.* FROM windlass.live l JOIN windlass.task_rows r ON r.seq = l.seq
WHERE l.namespace = $1 AND l.lane = $2 AND l.slot ORDER BY l.seq
