-- When a task last failed, whether it was to be tried again or not. A history that is not written down has no failure.
CREATE FUNCTION "{schema}".last_failure(task bigint) RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT h.at FROM "{schema}".history_rows h
    WHERE h.task = last_failure.task AND h.state IN ('waiting_for_retry', 'failed', 'dead_letter') ORDER BY h.n DESC LIMIT 1
$$;
