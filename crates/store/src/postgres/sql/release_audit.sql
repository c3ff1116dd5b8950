UPDATE windlass.audit_kept SET since = $1 WHERE since < $1 AND (SELECT at FROM windlass.audit ORDER BY seq LIMIT 1) < $1
