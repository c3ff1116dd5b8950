-- Without a limit: the reader stops when it has enough.
SELECT * FROM task_rows
WHERE namespace = ? AND queue = ? AND kind = ? AND state = 'pending' AND (lane IS NULL OR slot = 1)
ORDER BY rank DESC, seq
