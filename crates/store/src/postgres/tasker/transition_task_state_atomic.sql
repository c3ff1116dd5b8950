-- Moves a workflow from one state to another, and says whether it did. It does not if the workflow is not there, or not in the first
-- state, if there is no such arrow, if its steps say otherwise, or if somebody else owns it. Who moves it to an active state owns it for 30
-- seconds; whose it was is the note, if there is no other. What has not ended of a workflow that is cancelled or resolved is cancelled. One that is a step of another is not ended here,
-- nor one that waits for workflows within it: whoever runs them has to be told.
CREATE FUNCTION {prefix}tasker.transition_task_state_atomic(
    p_task_uuid uuid, p_from_state varchar, p_to_state varchar, p_processor_uuid uuid, p_metadata jsonb DEFAULT '{}'
) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path = "{schema}", pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    who   constant text := p_processor_uuid::text;
    said  text := CASE WHEN p_metadata <> '{}' THEN stored_text(p_metadata::text) END;
    w     workflows;
    now   timestamptz;
    gone  record;
    bells text := '';
BEGIN
    SELECT * INTO w FROM workflows WHERE id = p_task_uuid FOR UPDATE;
    -- Only now: the lock may have been waited for.
    now := clock_timestamp();
    IF w.state IS DISTINCT FROM p_from_state OR is_final_state(w.state) OR NOT workflow_may_become(w.state, p_to_state)
        OR is_active_state(w.state) AND w.owner IS DISTINCT FROM who AND w.owned_until > now
        OR is_final_state(p_to_state) AND w.parent IS NOT NULL
    THEN
        RETURN false;
    ELSIF is_active_state(p_to_state) THEN
        IF who IS NULL THEN
            RETURN false;
        ELSIF is_active_state(w.state) AND w.owner <> who THEN
            said := coalesce(said, 'took over from ' || w.owner);
        END IF;
        w.owner := who;
        w.owned_until := now + interval '30 seconds';
    ELSIF p_to_state IN ('cancelled', 'resolved_manually') THEN
        IF w.nested > 0 THEN
            RETURN false;
        END IF;
        SELECT * INTO gone FROM cancel_tasks(w.id, who, coalesce(said, 'its workflow was ended'), now);
        w.cancelled := w.cancelled + gone.many;
        w.waiting := 0;
        w.active := 0;
        w.timed := 0;
        bells := CASE WHEN gone.revoked THEN 'r' ELSE '' END || CASE WHEN gone.opened THEN 'c' ELSE '' END;
    ELSIF p_to_state <> state_by_steps(w) AND NOT (p_to_state = 'error' AND w.state = 'blocked_by_failures') THEN
        RETURN false;
    END IF;
    PERFORM move_workflow(w, p_to_state, who, said, now);
    IF is_final_state(p_to_state) OR p_to_state = 'blocked_by_failures' THEN
        bells := bells || 's';
    END IF;
    IF bells <> '' THEN
        PERFORM pg_notify('{schema}', ' ' || bells);
    END IF;
    RETURN true;
END $$;
REVOKE ALL ON FUNCTION {prefix}tasker.transition_task_state_atomic FROM PUBLIC;
