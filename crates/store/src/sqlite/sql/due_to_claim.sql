-- Without a limit: whoever reads it stops when there is enough.
SELECT * FROM task_rows WHERE namespace = ? AND queue = ? AND kind = ? AND due_at <= ? ORDER BY due_at, seq
