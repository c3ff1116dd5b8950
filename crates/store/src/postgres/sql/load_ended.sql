SELECT {spec}, {ended}, e.ctid::text, e.plain, t.actor, e.ready_at
FROM unnest($1::uuid[]) AS u (id)
CROSS JOIN LATERAL (SELECT * FROM windlass.tasks t WHERE t.id = u.id OFFSET 0) t
JOIN windlass.ended e ON e.seq = t.seq
ORDER BY e.seq FOR UPDATE OF e
