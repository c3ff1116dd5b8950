-- How long a step that waits for a retry was told to wait after its last failure, in whole seconds.
CREATE FUNCTION "{schema}".backoff_seconds(state text, failed_at timestamptz, due_at timestamptz) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN state = 'waiting_for_retry' AND failed_at IS NOT NULL THEN
        least(greatest(floor(extract(epoch FROM due_at - failed_at)), 0), 2147483647)::integer END
$$;
