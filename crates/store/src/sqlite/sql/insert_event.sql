INSERT INTO events (at, namespace, what, subject, queue, name, state, attempt) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
