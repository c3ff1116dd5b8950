SELECT h.n, h.state, h.at, h.actor, h.note FROM windlass.workflow_history h
WHERE h.workflow = (SELECT w.seq FROM windlass.workflows w WHERE w.id = $1) ORDER BY h.n
