-- Nothing, if there is such a version already.
INSERT INTO windlass.definitions (namespace, name, version, content, steps, created_at)
VALUES ($1, $2, $3, $4::text::json, $5, $6) ON CONFLICT DO NOTHING RETURNING seq
