-- One workflow as get_next_ready_tasks shows it, whether it is ready or not.
CREATE FUNCTION {prefix}tasker.get_task_ready_info(p_task_uuid uuid) RETURNS TABLE (
    task_uuid         uuid,
    task_name         text,
    priority          integer,
    namespace_name    text,
    ready_steps_count bigint,
    computed_priority numeric,
    current_state     text
) LANGUAGE sql STABLE PARALLEL SAFE SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off AS $$
    SELECT w.id, w.name, w.priority, w.namespace, "{schema}".ready_steps(w.id, w.paused),
        "{schema}".computed_priority(w.priority, w.created_at, w.retries), w.state
    FROM "{schema}".workflows w WHERE w.id = p_task_uuid
$$;
