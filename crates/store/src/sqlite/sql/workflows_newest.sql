SELECT * FROM workflows WHERE seq < ? ORDER BY seq DESC
