-- The tasks of a workflow, or a part of it, that are not over.
SELECT {spec}, {live}, l.ctid::text, l.plain, t.actor, l.ready_at
FROM windlass.tasks t JOIN windlass.live l ON l.seq = t.seq
WHERE t.id >= $1 AND t.id <= $2 AND t.is_step ORDER BY l.seq FOR UPDATE OF l
