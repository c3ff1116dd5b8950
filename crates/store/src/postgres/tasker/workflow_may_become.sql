-- Whether there is an arrow from one state of a workflow to another.
CREATE FUNCTION workflow_may_become(at text, next text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(CASE at
        WHEN 'pending' THEN next IN ('initializing', 'cancelled', 'resolved_manually')
        WHEN 'initializing' THEN next IN ('enqueuing_steps', 'waiting_for_dependencies', 'complete', 'cancelled', 'resolved_manually')
        WHEN 'enqueuing_steps' THEN next IN ('steps_in_process', 'error', 'cancelled', 'resolved_manually')
        WHEN 'steps_in_process' THEN next IN ('evaluating_results', 'waiting_for_retry', 'cancelled', 'resolved_manually')
        WHEN 'evaluating_results' THEN next IN (
            'enqueuing_steps', 'waiting_for_dependencies', 'blocked_by_failures', 'complete', 'cancelled', 'resolved_manually')
        WHEN 'waiting_for_dependencies' THEN next IN ('evaluating_results', 'cancelled', 'resolved_manually')
        WHEN 'waiting_for_retry' THEN next IN ('enqueuing_steps', 'evaluating_results', 'cancelled', 'resolved_manually')
        WHEN 'blocked_by_failures' THEN next IN ('evaluating_results', 'error', 'cancelled', 'resolved_manually')
        WHEN 'error' THEN next = 'evaluating_results'
    END, false)
$$;
