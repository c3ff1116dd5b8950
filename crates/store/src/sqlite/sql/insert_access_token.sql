INSERT INTO access_tokens (
    name, id, digest, scopes, queues, namespaces, groups, created_at, created_by, expires_at, previous, last_used_at
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
