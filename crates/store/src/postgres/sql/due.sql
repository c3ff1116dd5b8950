SELECT t.id, l.due_at FROM (
    SELECT l.seq, l.due_at FROM windlass.live l WHERE l.due_at <= $1 AND l.due_at >= $3 ORDER BY l.due_at, l.seq LIMIT $2
) l JOIN windlass.tasks t ON t.seq = l.seq ORDER BY l.due_at, l.seq
