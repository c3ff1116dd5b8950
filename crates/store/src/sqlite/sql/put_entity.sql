INSERT INTO entities (namespace, entity) VALUES (?, ?) ON CONFLICT DO NOTHING
