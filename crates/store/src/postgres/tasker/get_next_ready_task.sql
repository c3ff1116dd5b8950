-- The first of get_next_ready_tasks.
CREATE FUNCTION {prefix}tasker.get_next_ready_task() RETURNS TABLE (
    task_uuid         uuid,
    task_name         text,
    priority          integer,
    namespace_name    text,
    ready_steps_count bigint,
    computed_priority numeric,
    current_state     text
) LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT r.* FROM {prefix}tasker.get_next_ready_tasks(1) r
$$;
