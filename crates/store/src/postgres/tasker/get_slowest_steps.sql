-- Steps of definitions, slowest on average first: how long their last attempts took that ended since a moment (by default a day ago), and how many of
-- those failed for good. Those with fewer than min_executions are left out. The error rate is in percent.
CREATE FUNCTION {prefix}tasker.get_slowest_steps(
    since_timestamp  timestamptz DEFAULT NULL,
    limit_count      integer DEFAULT 10,
    namespace_filter text DEFAULT NULL,
    task_name_filter text DEFAULT NULL,
    version_filter   text DEFAULT NULL,
    min_executions   integer DEFAULT 1
) RETURNS TABLE (
    named_step_uuid      uuid,
    step_name            text,
    avg_duration_seconds numeric,
    max_duration_seconds numeric,
    min_duration_seconds numeric,
    execution_count      integer,
    error_count          integer,
    error_rate           numeric,
    last_executed_at     timestamptz
) LANGUAGE sql STABLE PARALLEL SAFE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
    SELECT {schema}.named_id(s.namespace, s.name, s.version, s.step), s.step, round(avg(s.seconds), 6), max(s.seconds), min(s.seconds),
        count(*)::integer, count(*) FILTER (WHERE s.state <> 'completed')::integer,
        round(count(*) FILTER (WHERE s.state <> 'completed') * 100.0 / count(*), 2), max(s.finished_at)
    FROM {schema}.executed_steps(coalesce(since_timestamp, statement_timestamp() - interval '1 day'),
        namespace_filter, task_name_filter, version_filter) s
    GROUP BY s.namespace, s.name, s.version, s.step HAVING count(*) >= coalesce(min_executions, 1)
    ORDER BY avg(s.seconds) DESC NULLS LAST, s.namespace, s.name, s.version, s.step LIMIT greatest(coalesce(limit_count, 10), 0)
$$;
