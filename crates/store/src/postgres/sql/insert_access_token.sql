-- Nothing, if its name or id has been taken meanwhile: then there is another token.
WITH had AS (INSERT INTO windlass.had_access_tokens VALUES (true) ON CONFLICT DO NOTHING)
INSERT INTO windlass.access_tokens (
    name, id, digest, scopes, queues, namespaces, groups, created_at, created_by, expires_at, previous, last_used_at
) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT DO NOTHING
