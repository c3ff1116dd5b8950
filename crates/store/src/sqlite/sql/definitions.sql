SELECT d.name, d.version, d.steps, d.created_at FROM definitions d
WHERE d.namespace = ? AND d.version >= char(2) AND NOT EXISTS (
    SELECT 1 FROM definitions n WHERE n.namespace = d.namespace AND n.name = d.name AND n.version >= char(2) AND n.seq > d.seq)
ORDER BY d.name
