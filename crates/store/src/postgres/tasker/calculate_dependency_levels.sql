-- How many steps come before each step of a workflow on the longest way; 0 for those without parents. An item is where its step is.
CREATE FUNCTION {prefix}tasker.calculate_dependency_levels(input_task_uuid uuid)
RETURNS TABLE (workflow_step_uuid uuid, dependency_level integer)
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    levels integer[];
BEGIN
    SELECT d.levels INTO levels FROM "{schema}".workflows w JOIN "{schema}".definitions d ON d.seq = w.definition
    WHERE w.id = input_task_uuid;
    RETURN QUERY SELECT t.id, levels["{schema}".step_of(t.id) + 1] FROM "{schema}".tasks t
    WHERE FOUND AND t.id >= input_task_uuid AND t.id <= "{schema}".last_task(input_task_uuid) AND t.is_step ORDER BY 2, 1;
END $$;
