SELECT i.input::text FROM windlass.inputs i JOIN windlass.workflows w ON w.seq = i.workflow WHERE w.id = $1
