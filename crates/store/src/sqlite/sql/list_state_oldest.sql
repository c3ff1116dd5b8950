SELECT * FROM task_rows
WHERE state = ?2 AND state <> 'pending' AND state <> 'claimed' AND state <> 'running' AND state <> 'completed' AND seq > ?1
ORDER BY seq
