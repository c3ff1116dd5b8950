SELECT namespace, queue, kind, state, sum(tasks)::bigint FROM windlass.counts
GROUP BY namespace, queue, kind, state HAVING sum(tasks) > 0
