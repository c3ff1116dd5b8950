INSERT INTO windlass.audit (at, actor, action, subject, reason, namespace)
VALUES (coalesce($1, clock_timestamp()), $2, $3, $4, $5, $6)
