SELECT entity FROM windlass.entities WHERE namespace = $1 AND entity > $2 ORDER BY entity LIMIT $3
