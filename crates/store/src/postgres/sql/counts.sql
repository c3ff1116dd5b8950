SELECT namespace, queue, kind, is_step, state, sum(tasks)::bigint FROM windlass.counts
GROUP BY namespace, queue, kind, is_step, state HAVING sum(tasks) > 0
