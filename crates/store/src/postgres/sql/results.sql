SELECT (SELECT e.result::text FROM windlass.tasks t JOIN windlass.ended e ON e.seq = t.seq WHERE t.id = u.id)
FROM unnest($1::uuid[]) WITH ORDINALITY AS u (id, place) ORDER BY u.place
