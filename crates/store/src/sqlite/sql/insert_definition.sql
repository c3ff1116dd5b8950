INSERT INTO definitions (seq, namespace, name, version, content, steps, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)
