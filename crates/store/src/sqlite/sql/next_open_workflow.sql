SELECT * FROM workflows WHERE finished_at IS NULL AND id > ? ORDER BY id LIMIT 1
