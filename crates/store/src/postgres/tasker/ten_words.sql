-- The ten words of document 002 for a step. The work of a step that waits for its items, or for the workflow that it is, is being done.
CREATE FUNCTION "{schema}".ten_words(state text, waits text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN state = 'waiting' AND waits IN ('items', 'workflow') THEN 'in_progress'
        WHEN state IN ('waiting', 'scheduled', 'pending') THEN 'pending'
        WHEN state = 'claimed' THEN 'enqueued'
        WHEN state = 'running' THEN 'in_progress'
        WHEN state = 'completed' THEN 'complete'
        WHEN state IN ('failed', 'dead_letter') THEN 'error'
        WHEN state = 'skipped' THEN 'cancelled'
        ELSE state
    END
$$;
