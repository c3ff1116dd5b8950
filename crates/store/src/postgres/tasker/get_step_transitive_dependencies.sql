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
    workflow constant uuid := "{schema}".workflow_of(input_step_uuid);
    names    text[];
    steps    integer[];
    ids      uuid[];
    far      integer[];
    seqs     bigint[];
BEGIN
    SELECT d.names, f.steps, f.ids, f.far INTO names, steps, ids, far
    FROM "{schema}".workflows w JOIN "{schema}".definitions d ON d.seq = w.definition CROSS JOIN LATERAL (
        SELECT array_agg(a.ancestor) AS steps, array_agg("{schema}".step_id(workflow, a.ancestor)) AS ids, array_agg(a.distance) AS far
        FROM (
            SELECT b.* FROM "{schema}".ancestors_of(d.seq, "{schema}".step_of(input_step_uuid)) b ORDER BY b.ancestor OFFSET 0
        ) a
    ) f
    WHERE w.id = workflow AND EXISTS (SELECT FROM "{schema}".tasks t WHERE t.id = input_step_uuid AND t.is_step);
    -- In the order of steps, as the others are; all of them are there, since steps are deleted only with their workflow.
    seqs := ARRAY(SELECT t.seq FROM "{schema}".tasks t WHERE t.id = ANY (ids) ORDER BY t.id);
    RETURN QUERY SELECT
        names[a.step + 1],
        a.id,
        workflow,
        a.distance,
        coalesce(e.state IN ('completed', 'resolved_manually'), false),
        "{schema}".quick_jsonb(e.result)
    FROM unnest(steps, ids, far, seqs) AS a (step, id, distance, seq)
    LEFT JOIN (SELECT x.seq, x.state, x.result FROM "{schema}".ended x WHERE x.seq = ANY (seqs) OFFSET 0) e ON e.seq = a.seq
    ORDER BY a.distance, a.step;
END $$;
