-- Lets a step that waits for a retry wait until so many seconds from now, at most 30 days, and says whether it did. It does not if the step
-- is not there, does not wait for a retry, or the number is less than 0.
CREATE FUNCTION {prefix}tasker.set_step_backoff_atomic(p_step_uuid uuid, p_backoff_seconds integer)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path = "{schema}", pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    IF (p_backoff_seconds >= 0) IS NOT TRUE THEN
        RETURN false;
    END IF;
    -- Whoever changes a task of a workflow, other than by claiming it, locks the workflow first.
    PERFORM FROM workflows WHERE id = workflow_of(p_step_uuid) FOR UPDATE;
    UPDATE live l SET due_at = clock_timestamp() + least(p_backoff_seconds, 2592000) * interval '1 second'
    WHERE l.seq = (SELECT t.seq FROM tasks t WHERE t.id = p_step_uuid) AND l.is_step AND l.state = 'waiting_for_retry';
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM pg_notify('{schema}', ' t');
    RETURN true;
END $$;
REVOKE ALL ON FUNCTION {prefix}tasker.set_step_backoff_atomic FROM PUBLIC;
