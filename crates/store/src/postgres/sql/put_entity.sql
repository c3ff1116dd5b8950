INSERT INTO windlass.entities (namespace, entity) VALUES ($1, $2) ON CONFLICT DO NOTHING
