UPDATE sequence SET last = ?
