SELECT * FROM workers ORDER BY id
