SELECT t.id FROM windlass.tasks t WHERE t.namespace = $1 AND t.kind = $2 AND t.key = $3
