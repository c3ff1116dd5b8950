-- The steps of a workflow that can run now.
CREATE FUNCTION {prefix}tasker.get_ready_steps(input_task_uuid uuid) RETURNS TABLE (
    workflow_step_uuid      uuid,
    task_uuid               uuid,
    named_step_uuid         uuid,
    name                    text,
    current_state           text,
    dependencies_satisfied  boolean,
    retry_eligible          boolean,
    ready_for_execution     boolean,
    last_failure_at         timestamptz,
    next_retry_at           timestamptz,
    total_parents           integer,
    completed_parents       integer,
    attempts                integer,
    max_attempts            integer,
    backoff_request_seconds integer,
    last_attempted_at       timestamptz
) LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT r.* FROM {prefix}tasker.get_step_readiness_status_batch(ARRAY[input_task_uuid]) r WHERE r.ready_for_execution
$$;
