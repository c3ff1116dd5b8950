-- As get_slowest_tasks, of each workflow by itself.
CREATE FUNCTION {prefix}tasker.get_slowest_tasks_instances(
    since_timestamp  timestamptz DEFAULT NULL,
    limit_count      integer DEFAULT 10,
    namespace_filter text DEFAULT NULL,
    task_name_filter text DEFAULT NULL,
    version_filter   text DEFAULT NULL
) RETURNS TABLE (
    task_uuid        uuid,
    namespace_name   text,
    task_name        text,
    version          text,
    duration_seconds numeric,
    step_count       bigint,
    completed_steps  bigint,
    error_steps      bigint,
    task_status      text,
    created_at       timestamptz,
    completed_at     timestamptz
) LANGUAGE sql STABLE PARALLEL SAFE SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off AS $$
    SELECT t.id, t.namespace, t.name, t.version, t.seconds, t.steps, t.done, t.failed, t.state, t.created_at, t.finished_at
    FROM "{schema}".executed_tasks(coalesce(since_timestamp, statement_timestamp() - interval '1 day'),
        namespace_filter, task_name_filter, version_filter) t
    ORDER BY t.seconds DESC, t.id LIMIT greatest(coalesce(limit_count, 10), 0)
$$;
