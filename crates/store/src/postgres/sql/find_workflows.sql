SELECT w.id FROM windlass.workflows w WHERE w.id = ANY ($1)
