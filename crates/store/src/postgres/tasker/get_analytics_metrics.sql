-- What happened to workflows since the beginning of the minute that a moment is in: by default an hour ago, at most 31 days. Rates are percents of
-- the workflows that were started in that time. The score is half for what is complete, 0.3 for what is not in error and 0.2 for
-- free connections; 1 if there is nothing.
CREATE FUNCTION {prefix}tasker.get_analytics_metrics(since_timestamp timestamptz DEFAULT NULL) RETURNS TABLE (
    active_tasks_count      bigint,
    total_namespaces_count  bigint,
    unique_task_types_count bigint,
    system_health_score     numeric,
    task_throughput         bigint,
    completion_count        bigint,
    error_count             bigint,
    completion_rate         numeric,
    error_rate              numeric,
    avg_task_duration       numeric,
    avg_step_duration       numeric,
    step_throughput         bigint,
    analysis_period_start   timestamptz,
    calculated_at           timestamptz
) LANGUAGE sql STABLE PARALLEL RESTRICTED SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off AS $$
    SELECT
        w.active, w.namespaces, w.types,
        CASE WHEN w.total = 0 THEN 1.000 ELSE round(0.5 * w.complete / w.total + 0.3 * (1 - w.error / w.total)
            + 0.2 * (1 - least(coalesce(c.active::numeric / nullif(c.most, 0), 0), 1)), 3) END,
        a.started, a.completed, a.failed,
        coalesce(round(a.completed * 100.0 / nullif(a.started, 0), 2), 0.00),
        coalesce(round(a.failed * 100.0 / nullif(a.started, 0), 2), 0.00),
        coalesce(round(a.lasted / 1000000.0 / nullif(a.completed, 0), 3), 0.000),
        coalesce(round(a.steps_lasted / 1000000.0 / nullif(a.steps, 0), 3), 0.000),
        a.steps, p.start, statement_timestamp()
    FROM (
        SELECT to_timestamp(floor(extract(epoch FROM coalesce(since_timestamp, statement_timestamp() - interval '1 hour')) / 60)
            ::double precision * 60) AS start
    ) p CROSS JOIN LATERAL (
        SELECT coalesce(sum(y.started), 0)::bigint AS started, coalesce(sum(y.completed), 0)::bigint AS completed,
            coalesce(sum(y.failed), 0)::bigint AS failed, coalesce(sum(y.lasted), 0) AS lasted,
            coalesce(sum(y.steps), 0)::bigint AS steps, coalesce(sum(y.steps_lasted), 0) AS steps_lasted
        FROM "{schema}".activity y WHERE y.minute >= p.start
    ) a CROSS JOIN (
        SELECT coalesce(sum(n.many), 0) AS total,
            coalesce(sum(n.many) FILTER (WHERE n.state = 'complete'), 0) AS complete,
            coalesce(sum(n.many) FILTER (WHERE n.state = 'error'), 0) AS error,
            coalesce(sum(n.many) FILTER (WHERE n.state NOT IN ('complete', 'error', 'cancelled', 'resolved_manually')), 0)::bigint AS active,
            count(DISTINCT n.namespace) AS namespaces, count(DISTINCT (n.namespace, n.name)) AS types
        FROM (
            SELECT k.namespace, k.name, k.state, sum(k.workflows) AS many FROM "{schema}".workflow_counts k
            GROUP BY k.namespace, k.name, k.state HAVING sum(k.workflows) > 0
        ) n
    ) w CROSS JOIN (
        SELECT count(*) AS active, current_setting('max_connections')::integer AS most
        FROM pg_stat_activity s WHERE s.datid IS NOT NULL AND s.usesysid IS NOT NULL
    ) c
$$;
