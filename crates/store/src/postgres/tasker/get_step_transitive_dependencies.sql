-- All steps that a step comes after, nearest first, with what they have returned. An item comes after what its step comes after.
CREATE FUNCTION {prefix}tasker.get_step_transitive_dependencies(input_step_uuid uuid) RETURNS TABLE (
    step_name text,
    step_uuid uuid,
    task_uuid uuid,
    distance  integer,
    processed boolean,
    results   jsonb
) LANGUAGE plpgsql STABLE
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    workflow constant uuid := {schema}.workflow_of(input_step_uuid);
    names    text[];
    steps    integer[];
    ids      uuid[];
    far      integer[];
BEGIN
    SELECT d.names, f.steps, f.ids, f.far INTO names, steps, ids, far
    FROM {schema}.workflows w JOIN {schema}.definitions d ON d.seq = w.definition CROSS JOIN LATERAL (
        SELECT array_agg(a.ancestor) AS steps, array_agg({schema}.step_id(workflow, a.ancestor)) AS ids, array_agg(a.distance) AS far
        FROM {schema}.ancestors_of(d.seq, {schema}.step_of(input_step_uuid)) a
    ) f
    WHERE w.id = workflow AND EXISTS (SELECT FROM {schema}.tasks t WHERE t.id = input_step_uuid AND t.is_step);
    RETURN QUERY SELECT
        names[a.step + 1],
        a.id,
        workflow,
        a.distance,
        coalesce(e.state IN ('completed', 'resolved_manually'), false),
        {schema}.quick_jsonb(e.result)
    FROM (
        SELECT u.*, t.seq FROM unnest(steps, ids, far) AS u (step, id, distance)
        JOIN (SELECT k.seq, k.id FROM {schema}.tasks k WHERE k.id = ANY (ids) OFFSET 0) t ON t.id = u.id
        ORDER BY u.distance, u.step OFFSET 0
    ) a LEFT JOIN LATERAL (SELECT x.state, x.result FROM {schema}.ended x WHERE x.seq = a.seq OFFSET 0) e ON true;
END $$;
