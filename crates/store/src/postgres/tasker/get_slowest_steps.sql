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
) LANGUAGE sql STABLE PARALLEL SAFE SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_memoize = off
AS $$
    -- By number first: names are looked up once for each step of a definition.
    WITH numbered AS MATERIALIZED (
        SELECT s.definition, s.step, sum(s.took) AS sum, count(s.took) AS timed, max(s.took) AS max, min(s.took) AS min, count(*) AS many,
            count(*) FILTER (WHERE s.state <> 'completed') AS failed, max(s.finished_at) AS last
        FROM "{schema}".executed_steps(coalesce(since_timestamp, statement_timestamp() - interval '1 day'),
            namespace_filter, task_name_filter, version_filter) s
        GROUP BY s.definition, s.step
    ), named AS MATERIALIZED (
        SELECT d.seq, d.namespace, d.name, "{schema}".shown_version(d.version) AS version, n.name AS step, n.number
        FROM "{schema}".definitions d CROSS JOIN LATERAL unnest(d.names) WITH ORDINALITY AS n (name, number)
        WHERE d.seq = ANY (ARRAY(SELECT DISTINCT s.definition FROM numbered s))
    )
    SELECT "{schema}".named_id(n.namespace, n.name, n.version, n.step), n.step,
        round(extract(epoch FROM sum(s.sum)) / nullif(sum(s.timed), 0), 6), extract(epoch FROM max(s.max)), extract(epoch FROM min(s.min)),
        sum(s.many)::integer, sum(s.failed)::integer, round(sum(s.failed) * 100 / sum(s.many), 2), max(s.last)
    FROM numbered s JOIN named n ON n.seq = s.definition AND n.number = s.step
    GROUP BY n.namespace, n.name, n.version, n.step HAVING sum(s.many) >= coalesce(min_executions, 1)
    ORDER BY 3 DESC NULLS LAST, n.namespace, n.name, n.version, n.step LIMIT greatest(coalesce(limit_count, 10), 0)
$$;
