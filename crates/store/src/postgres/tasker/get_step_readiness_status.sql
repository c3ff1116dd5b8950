-- As get_step_readiness_status_batch, of one workflow; of these of its steps, if any are named. Their parents count whether they are named or not.
CREATE FUNCTION {prefix}tasker.get_step_readiness_status(input_task_uuid uuid, step_uuids uuid[] DEFAULT NULL) RETURNS TABLE (
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
    SELECT r.* FROM {prefix}tasker.get_step_readiness_status_batch(ARRAY[input_task_uuid]) r
    WHERE step_uuids IS NULL OR r.workflow_step_uuid = ANY (step_uuids)
$$;
