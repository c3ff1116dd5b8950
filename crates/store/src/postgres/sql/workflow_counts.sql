SELECT namespace, name, state, sum(workflows)::bigint FROM windlass.workflow_counts
GROUP BY namespace, name, state HAVING sum(workflows) > 0
