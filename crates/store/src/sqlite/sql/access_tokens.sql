SELECT name, id, digest, scopes, queues, created_at, created_by, expires_at FROM access_tokens ORDER BY name
