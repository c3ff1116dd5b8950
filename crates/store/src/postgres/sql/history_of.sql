SELECT n, state, at, reason, actor, note FROM windlass.history
WHERE task = (SELECT t.seq FROM windlass.tasks t WHERE t.id = $1) ORDER BY n
