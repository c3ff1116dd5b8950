-- Nothing, if its name or id has been taken meanwhile.
INSERT INTO windlass.access_tokens (name, id, digest, scopes, queues, created_at, created_by, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING
