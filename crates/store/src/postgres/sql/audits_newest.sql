SELECT seq, at, actor, action, subject, reason FROM windlass.audit WHERE seq < $1 ORDER BY seq DESC LIMIT $2
