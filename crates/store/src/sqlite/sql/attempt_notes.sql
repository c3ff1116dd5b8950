SELECT lease, progress, details, dropped, lines FROM notes WHERE task = ? AND lease = ?
