-- The workflows in process that have ready steps, highest computed priority first; of some of them workers have all. One that waits for a
-- retry is in process as soon as that was promoted. Their order never changes by age alone, so that it is an index.
CREATE FUNCTION {prefix}tasker.get_next_ready_tasks(p_limit integer DEFAULT 5) RETURNS TABLE (
    task_uuid         uuid,
    task_name         text,
    priority          integer,
    namespace_name    text,
    ready_steps_count bigint,
    computed_priority numeric,
    current_state     text
) LANGUAGE sql STABLE PARALLEL SAFE SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
    SELECT w.id, w.name, w.priority, w.namespace, r.ready, "{schema}".computed_priority(w.priority, w.created_at, w.retries), w.state
    FROM "{schema}".workflows w CROSS JOIN LATERAL (SELECT "{schema}".ready_steps(w.id, w.paused) AS ready OFFSET 0) r
    WHERE w.state = 'steps_in_process' AND r.ready > 0
    ORDER BY w.rank DESC, w.seq LIMIT greatest(coalesce(p_limit, 5), 0)
$$;
