INSERT INTO workflow_history (workflow, n, state, at, actor, note) VALUES (?, ?, ?, ?, ?, ?)
