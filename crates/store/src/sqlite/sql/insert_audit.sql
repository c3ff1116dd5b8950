INSERT INTO audit (at, actor, action, subject, reason) VALUES (?, ?, ?, ?, ?)
