-- What a claim that finds nothing reads: tasks whose moment has come, and which nobody has promoted yet.
CREATE INDEX live_due_to_claim ON live (namespace, queue, kind, due_at, seq) WHERE due_at IS NOT NULL;

-- A failure whose retry delay is zero goes to pending at once.
CREATE OR REPLACE FUNCTION "{schema}".last_failure(task bigint) RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT h.at FROM "{schema}".history_rows h
    WHERE h.task = last_failure.task AND (h.reason = 'failed' OR h.state IN ('failed', 'dead_letter')) ORDER BY h.n DESC LIMIT 1
$$;
