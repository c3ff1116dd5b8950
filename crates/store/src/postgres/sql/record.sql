SELECT r.*, t.payload::text, (SELECT e.result::text FROM windlass.ended e WHERE e.seq = r.seq)
FROM windlass.task_rows r JOIN windlass.tasks t ON t.seq = r.seq WHERE r.id = $1
