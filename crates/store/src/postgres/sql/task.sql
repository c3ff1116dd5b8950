SELECT r.* FROM windlass.task_rows r WHERE r.id = $1
