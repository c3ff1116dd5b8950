DELETE FROM entities WHERE namespace = ? AND entity = ?
