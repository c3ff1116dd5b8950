SELECT {workflow} FROM windlass.workflows w WHERE w.namespace = $1 AND w.name = $2 AND w.key = $3
