SELECT EXISTS (SELECT FROM windlass.entities WHERE namespace = $1 AND entity = $2)
