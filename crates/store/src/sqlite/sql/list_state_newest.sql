SELECT * FROM task_rows
WHERE state = ?3 AND state NOT IN ('pending', 'claimed', 'running', 'completed') AND seq < ?1
ORDER BY seq DESC LIMIT ?2
