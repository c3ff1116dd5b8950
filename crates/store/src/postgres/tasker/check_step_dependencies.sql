-- Whether a step has enough parents that are done, or over, as its join says; null if there is no such step. Items come after nobody.
CREATE FUNCTION {prefix}tasker.check_step_dependencies(step_uuid uuid) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    workflow constant uuid := "{schema}".workflow_of(step_uuid);
    step     constant integer := "{schema}".step_of(step_uuid) + 1;
    needs    integer;
    any_end  boolean;
    parents  integer[];
BEGIN
    SELECT d.needed[step], d.over[step], d.parents[d.places[step] + 1 : d.places[step + 1]] INTO needs, any_end, parents
    FROM "{schema}".workflows w JOIN "{schema}".definitions d ON d.seq = w.definition
    WHERE w.id = workflow AND EXISTS (SELECT FROM "{schema}".tasks t WHERE t.id = step_uuid AND t.is_step);
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    RETURN "{schema}".item_of(step_uuid) IS NOT NULL OR needs <= (
        SELECT count(*) FROM "{schema}".tasks t JOIN "{schema}".ended e ON e.seq = t.seq
        WHERE t.id = ANY (ARRAY(SELECT "{schema}".step_id(workflow, p) FROM unnest(parents) p))
            AND (any_end OR e.state IN ('completed', 'resolved_manually'))
    );
END $$;
