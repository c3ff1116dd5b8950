-- Whether an edge between two steps of a workflow would close a cycle: that the first comes after the second already, or is the second.
CREATE FUNCTION {prefix}tasker.detect_cycle(from_step_uuid uuid, to_step_uuid uuid) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off AS $$
    SELECT EXISTS (
        SELECT FROM "{schema}".workflows w
        WHERE w.id = "{schema}".workflow_of(from_step_uuid) AND w.id = "{schema}".workflow_of(to_step_uuid)
            AND (SELECT count(*) FROM "{schema}".tasks t WHERE t.id = ANY (ARRAY[from_step_uuid, to_step_uuid]) AND t.is_step)
                = CASE WHEN from_step_uuid = to_step_uuid THEN 1 ELSE 2 END
            AND ("{schema}".step_of(from_step_uuid) = "{schema}".step_of(to_step_uuid) OR "{schema}".step_of(to_step_uuid) IN (
                SELECT a.ancestor FROM "{schema}".ancestors_of(w.definition, "{schema}".step_of(from_step_uuid)) a))
    )
$$;
