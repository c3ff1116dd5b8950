-- As get_slowest_steps, of each step or item by itself: how long its last attempt took.
CREATE FUNCTION {prefix}tasker.get_slowest_steps_instances(
    since_timestamp  timestamptz DEFAULT NULL,
    limit_count      integer DEFAULT 10,
    namespace_filter text DEFAULT NULL,
    task_name_filter text DEFAULT NULL,
    version_filter   text DEFAULT NULL
) RETURNS TABLE (
    workflow_step_uuid uuid,
    task_uuid          uuid,
    namespace_name     text,
    task_name          text,
    version            text,
    step_name          text,
    duration_seconds   numeric,
    attempts           integer,
    step_status        text,
    created_at         timestamptz,
    completed_at       timestamptz
) LANGUAGE sql STABLE PARALLEL SAFE SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_memoize = off
AS $$
    SELECT s.id, s.workflow, d.namespace, d.name, "{schema}".shown_version(d.version),
        d.names[s.step] || coalesce('[' || "{schema}".item_of(s.id) || ']', ''), extract(epoch FROM s.took), s.attempt::integer, "{schema}".ten_words(s.state, NULL), s.created_at, s.finished_at
    FROM (
        SELECT x.* FROM "{schema}".executed_steps(coalesce(since_timestamp, statement_timestamp() - interval '1 day'),
            namespace_filter, task_name_filter, version_filter) x
        WHERE x.took IS NOT NULL
        ORDER BY x.took DESC, x.id LIMIT greatest(coalesce(limit_count, 10), 0)
    ) s JOIN "{schema}".definitions d ON d.seq = s.definition
    ORDER BY s.took DESC, s.id
$$;
