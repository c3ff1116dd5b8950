SELECT entity FROM entities WHERE namespace = ? AND entity > ? ORDER BY entity LIMIT ?
