-- Whether a step of which this is known can run. Whether it may be retried is part of retry_eligible; retryable alone decides nothing.
CREATE FUNCTION {prefix}tasker.evaluate_step_state_readiness(
    current_state          text,
    processed              boolean,
    in_process             boolean,
    dependencies_satisfied boolean,
    retry_eligible         boolean,
    retryable              boolean,
    next_retry_time        timestamptz
) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce(current_state, 'pending') IN ('pending', 'waiting_for_retry')
        AND NOT coalesce(processed, false) AND NOT coalesce(in_process, false)
        AND coalesce(dependencies_satisfied, false) AND coalesce(retry_eligible, false)
        AND coalesce(next_retry_time <= statement_timestamp(), true)
$$;
