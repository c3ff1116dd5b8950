SELECT t.id FROM windlass.tasks t WHERE t.id >= $1 AND t.id <= $2 ORDER BY t.id LIMIT 1
