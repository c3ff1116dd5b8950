SELECT lease, progress, details, dropped, lines FROM notes WHERE task = ? ORDER BY lease
