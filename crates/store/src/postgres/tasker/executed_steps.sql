-- The steps and items of workflows that were completed, or failed for good, since a moment. Only workflows that have changed since then have any.
-- How long each took is the time of its last attempt: null if that did not get to start. The step is its number in the definition, from 1.
-- There may be a million of them: what can be done once for a step of a definition, such as finding its name, is left to who asks.
CREATE FUNCTION "{schema}".executed_steps(since timestamptz, of_namespace text, of_name text, of_version text) RETURNS TABLE (
    definition  bigint,
    step        integer,
    id          uuid,
    workflow    uuid,
    state       text,
    attempt     bigint,
    created_at  timestamptz,
    finished_at timestamptz,
    took        interval
) LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT w.definition, "{schema}".step_of(t.id) + 1, t.id, w.id, e.state, e.attempt, t.created_at, e.finished_at,
        CASE WHEN e.started_at IS NOT NULL THEN greatest(e.finished_at - e.started_at, interval '0') END
    FROM (
        SELECT o.* FROM "{schema}".workflows o WHERE o.finished_at IS NULL AND o.updated_at >= since
        UNION ALL
        SELECT o.* FROM "{schema}".workflows o
        WHERE o.state IN ('complete', 'error', 'cancelled', 'resolved_manually') AND o.finished_at >= since
    ) w CROSS JOIN LATERAL (
        SELECT k.seq, k.id, k.created_at FROM "{schema}".tasks k WHERE k.id >= w.id AND k.id <= "{schema}".last_task(w.id) AND k.is_step OFFSET 0
    ) t CROSS JOIN LATERAL (
        SELECT x.state, x.attempt, x.started_at, x.finished_at FROM "{schema}".ended x
        WHERE x.seq = t.seq AND x.state IN ('completed', 'failed', 'dead_letter') AND x.finished_at >= since OFFSET 0
    ) e
    WHERE (of_namespace IS NULL OR w.namespace = of_namespace) AND (of_name IS NULL OR w.name = of_name)
        AND (of_version IS NULL OR "{schema}".shown_version(w.version) = of_version)
$$;
