SELECT content::text FROM windlass.definitions WHERE seq = $1
