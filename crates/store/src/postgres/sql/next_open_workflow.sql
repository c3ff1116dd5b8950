SELECT w.id FROM windlass.workflows w WHERE w.finished_at IS NULL AND w.id > $1 ORDER BY w.id LIMIT 1
