-- What a task is part of, for who follows requests through many programs: a W3C trace context.
ALTER TABLE tasks ADD COLUMN traceparent TEXT CHECK (length(traceparent) = 55);

-- Everything but the result, which may be large and is read only when it is wanted.
DROP VIEW task_rows;
CREATE VIEW task_rows AS SELECT
    seq, id, namespace, queue, kind, priority, per_hour, per_retry, key, lane, lane_limit, lane_strict, timeout, tags,
    max_attempts, retry, created_at, state, attempt, lease, worker, due_at, claimed_at, started_at, finished_at,
    updated_at, error, slot, rank, entries, is_step, waits, met, others, traceparent
FROM tasks;
