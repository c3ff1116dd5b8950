INSERT INTO inputs (workflow, input) VALUES (?, ?)
