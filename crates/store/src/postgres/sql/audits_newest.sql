SELECT seq, at, actor, action, subject, reason, namespace FROM windlass.audit WHERE seq < $1 ORDER BY seq DESC LIMIT $2
