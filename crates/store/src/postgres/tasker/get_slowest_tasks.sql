-- Definitions, slowest on average first: how long their workflows took that were completed or given up since a moment (by default a day ago), and how
-- many were given up. Those with fewer than min_executions are left out. The error rate is in percent.
CREATE FUNCTION {prefix}tasker.get_slowest_tasks(
    since_timestamp  timestamptz DEFAULT NULL,
    limit_count      integer DEFAULT 10,
    namespace_filter text DEFAULT NULL,
    task_name_filter text DEFAULT NULL,
    version_filter   text DEFAULT NULL,
    min_executions   integer DEFAULT 1
) RETURNS TABLE (
    named_task_uuid      uuid,
    task_name            text,
    avg_duration_seconds numeric,
    max_duration_seconds numeric,
    min_duration_seconds numeric,
    execution_count      integer,
    avg_step_count       numeric,
    error_count          integer,
    error_rate           numeric,
    last_executed_at     timestamptz
) LANGUAGE sql STABLE PARALLEL SAFE SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off AS $$
    SELECT "{schema}".named_id(t.namespace, t.name, t.version), t.name, round(avg(t.seconds), 6), max(t.seconds), min(t.seconds),
        count(*)::integer, round(avg(t.steps), 2), count(*) FILTER (WHERE t.state = 'error')::integer,
        round(count(*) FILTER (WHERE t.state = 'error') * 100.0 / count(*), 2), max(t.finished_at)
    FROM "{schema}".executed_tasks(coalesce(since_timestamp, statement_timestamp() - interval '1 day'),
        namespace_filter, task_name_filter, version_filter) t
    GROUP BY t.namespace, t.name, t.version HAVING count(*) >= coalesce(min_executions, 1)
    ORDER BY avg(t.seconds) DESC, t.namespace, t.name, t.version LIMIT greatest(coalesce(limit_count, 10), 0)
$$;
