-- Whether a worker may take a task of a workflow now, as the core's BlockingReason decides it. One whose moment has come is ready even if nobody
-- has promoted it yet, unless its workflow is paused.
CREATE FUNCTION "{schema}".is_ready(state text, lane text, slot boolean, due_at timestamptz, paused boolean) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT NOT paused AND CASE
        WHEN state = 'pending' THEN lane IS NULL OR slot
        WHEN state IN ('scheduled', 'waiting_for_retry') THEN due_at <= statement_timestamp()
        ELSE false
    END
$$;
