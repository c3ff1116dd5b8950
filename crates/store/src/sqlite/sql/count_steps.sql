SELECT namespace, queue, kind, state, count(*) FROM tasks WHERE id >= ? AND id <= ? AND is_step = 1 GROUP BY 1, 2, 3, 4
