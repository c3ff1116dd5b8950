-- Whether a workflow is complete. One whose steps are all over is, whoever asks first; that is so without asking, unless somebody moved
-- it by hand or wrote to the tables. Asking again, or at the same time, changes nothing. One that is a step of another is left to those who
-- run that.
CREATE FUNCTION {prefix}tasker.finalize_task_completion(task_uuid uuid) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path = "{schema}", pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    w workflows;
BEGIN
    -- What is over stays so, and needs no lock.
    IF EXISTS (SELECT FROM workflows WHERE id = finalize_task_completion.task_uuid AND state = 'complete') THEN
        RETURN true;
    END IF;
    SELECT * INTO w FROM workflows WHERE id = finalize_task_completion.task_uuid FOR UPDATE;
    IF w.state = 'complete' THEN
        RETURN true;
    ELSIF NOT FOUND OR is_final_state(w.state) OR w.parent IS NOT NULL OR state_by_steps(w) <> 'complete' THEN
        RETURN false;
    END IF;
    WHILE w.state <> 'complete' LOOP
        w := move_workflow(w, CASE
            WHEN workflow_may_become(w.state, 'complete') THEN 'complete'
            WHEN w.state = 'pending' THEN 'initializing'
            WHEN w.state = 'enqueuing_steps' THEN 'steps_in_process'
            ELSE 'evaluating_results'
        END, NULL, NULL, clock_timestamp());
    END LOOP;
    PERFORM pg_notify('{schema}', ' s');
    RETURN true;
END $$;
REVOKE ALL ON FUNCTION {prefix}tasker.finalize_task_completion FROM PUBLIC;
