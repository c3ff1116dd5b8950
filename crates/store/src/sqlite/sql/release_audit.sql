UPDATE audit_kept SET since = ?1 WHERE since < ?1 AND (SELECT at FROM audit ORDER BY seq LIMIT 1) < ?1
