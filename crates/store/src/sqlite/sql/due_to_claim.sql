-- Without a limit: the reader stops when it has enough.
SELECT * FROM task_rows WHERE namespace = ? AND queue = ? AND kind = ? AND due_at <= ? ORDER BY due_at, seq
