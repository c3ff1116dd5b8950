SELECT DISTINCT ON (d.name) d.name, d.version, d.steps, d.created_at FROM windlass.definitions d
WHERE d.namespace = $1 AND d.version >= chr(2) ORDER BY d.name, d.seq DESC
