SELECT {workflow} FROM windlass.workflows w WHERE w.id = $1
