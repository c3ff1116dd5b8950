-- The newest of that name, if no version is asked for.
SELECT d.seq, d.version, d.content::text, d.created_at FROM windlass.definitions d
WHERE d.namespace = $1 AND d.name = $2 AND d.version = coalesce($3, (
    SELECT n.version FROM windlass.definitions n
    WHERE n.namespace = $1 AND n.name = $2 AND n.version >= chr(2) ORDER BY n.seq DESC LIMIT 1))
