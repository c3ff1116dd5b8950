SELECT name, id, digest, scopes, queues, namespaces, groups, created_at, created_by, expires_at, previous, last_used_at
FROM windlass.access_tokens WHERE name = $1 FOR UPDATE
