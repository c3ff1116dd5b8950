INSERT INTO access_tokens (name, id, digest, scopes, queues, created_at, created_by, expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
