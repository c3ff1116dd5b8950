SELECT {workflow} FROM windlass.workflows w WHERE w.id = ANY ($1) ORDER BY w.id FOR UPDATE
