SELECT {spec}, {live}, l.ctid::text, l.plain, t.actor, l.ready_at
FROM unnest($1::uuid[]) AS u (id)
CROSS JOIN LATERAL (SELECT * FROM windlass.tasks t WHERE t.id = u.id OFFSET 0) t
JOIN windlass.live l ON l.seq = t.seq
ORDER BY l.seq FOR UPDATE OF l
