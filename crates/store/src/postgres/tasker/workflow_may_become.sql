-- Whether there is an arrow from one state of a workflow to another.
CREATE FUNCTION workflow_may_become(at text, next text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(CASE at
        WHEN 'pending' THEN next = 'initializing'
        WHEN 'initializing' THEN next IN ('enqueuing_steps', 'waiting_for_dependencies', 'complete')
        WHEN 'enqueuing_steps' THEN next IN ('steps_in_process', 'error')
        WHEN 'steps_in_process' THEN next IN ('evaluating_results', 'waiting_for_retry')
        WHEN 'evaluating_results' THEN next IN ('enqueuing_steps', 'waiting_for_dependencies', 'blocked_by_failures', 'complete')
        WHEN 'waiting_for_dependencies' THEN next = 'evaluating_results'
        WHEN 'waiting_for_retry' THEN next IN ('enqueuing_steps', 'evaluating_results')
        WHEN 'blocked_by_failures' THEN next IN ('evaluating_results', 'error')
        WHEN 'error' THEN next = 'evaluating_results'
    END OR next IN ('cancelled', 'resolved_manually') AND NOT {schema}.is_final_state(at), false)
$$;
