INSERT INTO workflow_counts (namespace, name, state, workflows) VALUES (?1, ?2, ?3, max(?4, 0))
ON CONFLICT DO UPDATE SET workflows = workflows + ?4
