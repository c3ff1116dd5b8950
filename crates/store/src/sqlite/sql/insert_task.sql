INSERT INTO tasks (
    seq, id, namespace, queue, kind, priority, per_hour, per_retry, key, lane, lane_limit, lane_strict, timeout, tags,
    max_attempts, retry, created_at, state, attempt, lease, due_at, updated_at, slot, rank, entries, finished_at, is_step, waits,
    met, others, result, traceparent)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING
