SELECT details FROM notes WHERE task = ? AND details IS NOT NULL ORDER BY lease DESC LIMIT 1
