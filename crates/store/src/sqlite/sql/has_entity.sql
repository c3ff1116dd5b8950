SELECT 1 FROM entities WHERE namespace = ? AND entity = ?
