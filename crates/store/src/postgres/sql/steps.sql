SELECT r.* FROM windlass.task_rows r WHERE r.id >= $1 AND r.id <= $2 AND r.is_step ORDER BY r.id
