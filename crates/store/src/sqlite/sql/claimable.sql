-- Without a limit: whoever reads it stops when there is enough.
SELECT * FROM task_rows
WHERE namespace = ? AND queue = ? AND kind = ? AND state = 'pending' AND (lane IS NULL OR slot = 1)
ORDER BY rank DESC, seq
