SELECT * FROM task_rows WHERE state IN ('claimed', 'running') AND seq > ? ORDER BY seq LIMIT ?
