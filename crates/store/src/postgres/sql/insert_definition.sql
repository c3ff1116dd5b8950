-- Nothing, if there is such a version already.
INSERT INTO windlass.definitions (
    namespace, name, version, content, steps, created_at, names, kinds, levels, needed, over, places, parents)
VALUES ($1, $2, $3, $4::text::json, $5, $6, $7, $8, $9, $10, $11, $12, $13) ON CONFLICT DO NOTHING RETURNING seq
