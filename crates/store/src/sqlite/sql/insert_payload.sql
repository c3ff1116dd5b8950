INSERT INTO payloads (task, payload) VALUES (?, ?)
