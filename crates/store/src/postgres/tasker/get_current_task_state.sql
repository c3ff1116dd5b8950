-- The state of a workflow; null if there is none.
CREATE FUNCTION {prefix}tasker.get_current_task_state(task_uuid uuid) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off AS $$
    SELECT w.state FROM "{schema}".workflows w WHERE w.id = task_uuid
$$;
