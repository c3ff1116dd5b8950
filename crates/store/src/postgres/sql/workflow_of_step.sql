SELECT w.id FROM windlass.workflows w WHERE w.parent = $1 ORDER BY w.seq DESC LIMIT 1
