-- How many steps come before a step on the longest way; null if there is no such step.
CREATE FUNCTION {prefix}tasker.calculate_step_depth(step_uuid uuid) RETURNS integer
LANGUAGE sql STABLE PARALLEL SAFE SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off AS $$
    SELECT d.levels["{schema}".step_of(step_uuid) + 1]
    FROM "{schema}".workflows w JOIN "{schema}".definitions d ON d.seq = w.definition
    WHERE w.id = "{schema}".workflow_of(step_uuid) AND EXISTS (SELECT FROM "{schema}".tasks t WHERE t.id = step_uuid AND t.is_step)
$$;
