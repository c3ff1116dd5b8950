SELECT task, lease, progress::text, details::text, dropped, lines::text FROM windlass.notes
WHERE task = (SELECT t.seq FROM windlass.tasks t WHERE t.id = $1) ORDER BY lease
