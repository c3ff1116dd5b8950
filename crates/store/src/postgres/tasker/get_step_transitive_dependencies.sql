-- All steps that a step comes after, nearest first, with what they have returned. An item comes after what its step comes after.
CREATE FUNCTION {prefix}tasker.get_step_transitive_dependencies(input_step_uuid uuid) RETURNS TABLE (
    step_name text,
    step_uuid uuid,
    task_uuid uuid,
    distance  integer,
    processed boolean,
    results   jsonb
) LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    workflow constant uuid := {schema}.workflow_of(input_step_uuid);
    pinned   bigint;
    names    text[];
BEGIN
    SELECT d.seq, d.names INTO pinned, names FROM {schema}.workflows w JOIN {schema}.definitions d ON d.seq = w.definition
    WHERE w.id = workflow AND EXISTS (SELECT FROM {schema}.tasks t WHERE t.id = input_step_uuid AND t.is_step);
    IF NOT FOUND THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT
        names[a.ancestor + 1],
        a.id,
        workflow,
        a.distance,
        coalesce(e.state IN ('completed', 'resolved_manually'), false),
        {schema}.as_jsonb(e.result)
    FROM (
        SELECT b.*, {schema}.step_id(workflow, b.ancestor) AS id
        FROM {schema}.ancestors_of(pinned, {schema}.step_of(input_step_uuid)) WITH ORDINALITY AS b (ancestor, distance, place)
        ORDER BY b.distance, b.ancestor OFFSET 0
    ) a CROSS JOIN LATERAL (SELECT t.seq FROM {schema}.tasks t WHERE t.id = a.id OFFSET 0) t
    LEFT JOIN LATERAL (SELECT e.state, e.result FROM {schema}.ended e WHERE e.seq = t.seq OFFSET 0) e ON true;
END $$;
