SELECT * FROM workflows WHERE id = ?
