SELECT * FROM workflows WHERE parent = ? ORDER BY seq DESC LIMIT 1
