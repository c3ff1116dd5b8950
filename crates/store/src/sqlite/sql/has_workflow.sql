SELECT 1 FROM workflows WHERE id = ?
