SELECT r.* FROM unnest($1::uuid[]) AS u (id) JOIN windlass.task_rows r ON r.id = u.id
