INSERT INTO history (task, n, state, at, reason, actor, note) VALUES (?, ?, ?, ?, ?, ?, ?)
