SELECT EXISTS (SELECT FROM windlass.tasks t WHERE t.id = ANY ($1))
