-- Whether a workflow in this state may have an owner.
CREATE FUNCTION is_active_state(state text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT state IN ('initializing', 'enqueuing_steps', 'steps_in_process', 'evaluating_results')
$$;
