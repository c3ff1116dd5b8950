SELECT t.id FROM windlass.tasks t WHERE t.id = ANY ($1)
