-- Where a workflow is according to its steps.
CREATE FUNCTION state_by_steps(w workflows) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN w.active > 0 THEN 'steps_in_process'
        WHEN w.timed > 0 THEN 'waiting_for_retry'
        WHEN w.nested > 0 THEN 'waiting_for_dependencies'
        WHEN w.failed > 0 THEN 'blocked_by_failures'
        WHEN w.waiting > 0 THEN 'waiting_for_dependencies'
        ELSE 'complete'
    END
$$;
