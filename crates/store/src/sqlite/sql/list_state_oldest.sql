SELECT * FROM task_rows
WHERE state = ?3 AND state <> 'pending' AND state <> 'claimed' AND state <> 'running' AND state <> 'completed' AND seq > ?1
ORDER BY seq LIMIT ?2
