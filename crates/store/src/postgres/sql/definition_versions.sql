SELECT d.name, d.version, d.steps, d.created_at, d.content::text = $3 FROM windlass.definitions d
WHERE d.namespace = $1 AND d.name = $2 AND d.version >= chr(2) ORDER BY d.seq
