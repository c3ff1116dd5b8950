SELECT * FROM workers WHERE id = ?
