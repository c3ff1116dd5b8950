-- Nothing, if its name or id has been taken meanwhile.
INSERT INTO windlass.access_tokens (
    name, id, digest, scopes, queues, namespaces, groups, created_at, created_by, expires_at,
    previous_id, previous_digest, previous_until, last_used_at
) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT DO NOTHING
