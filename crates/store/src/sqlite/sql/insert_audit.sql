INSERT INTO audit (at, actor, action, subject, reason, namespace) VALUES (?, ?, ?, ?, ?, ?)
