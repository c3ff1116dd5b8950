-- How a workflow is doing, what is to be done about it, and its steps and items in numbers. What waits for a retry is among the pending.
CREATE FUNCTION {prefix}tasker.get_task_execution_context(input_task_uuid uuid) RETURNS TABLE (
    task_uuid             uuid,
    named_task_uuid       uuid,
    status                text,
    total_steps           bigint,
    pending_steps         bigint,
    in_progress_steps     bigint,
    completed_steps       bigint,
    failed_steps          bigint,
    ready_steps           bigint,
    execution_status      text,
    recommended_action    text,
    completion_percentage numeric,
    health_status         text,
    enqueued_steps        bigint
) LANGUAGE sql STABLE PARALLEL SAFE SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off AS $$
    SELECT c.id, c.named, c.state, c.total, c.pending, c.running, c.done, c.failed, c.ready, s.status,
        CASE s.status
            WHEN 'blocked_by_failures' THEN 'handle_failures'
            WHEN 'has_ready_steps' THEN 'execute_ready_steps'
            WHEN 'processing' THEN 'wait_for_completion'
            WHEN 'all_complete' THEN 'finalize_task'
            ELSE 'wait_for_dependencies'
        END,
        CASE WHEN c.total = 0 THEN 0.0 ELSE round((c.done + c.left_out) * 100.0 / c.total, 2) END,
        CASE
            WHEN c.failed > 0 THEN 'blocked'
            WHEN c.retrying > 0 THEN 'recovering'
            WHEN c.total = 0 THEN 'unknown'
            ELSE 'healthy'
        END,
        c.claimed
    FROM (
        SELECT w.id, "{schema}".named_id(w.namespace, w.name, "{schema}".shown_version(w.version)) AS named, w.state, n.*
        FROM "{schema}".workflows w CROSS JOIN LATERAL (
            SELECT count(*) AS total,
                count(*) FILTER (WHERE r.word IN ('pending', 'waiting_for_retry')) AS pending,
                count(*) FILTER (WHERE r.ready) AS ready,
                count(*) FILTER (WHERE r.word = 'enqueued') AS claimed,
                count(*) FILTER (WHERE r.word = 'in_progress') AS running,
                count(*) FILTER (WHERE r.word = 'waiting_for_retry') AS retrying,
                count(*) FILTER (WHERE r.word IN ('complete', 'resolved_manually')) AS done,
                count(*) FILTER (WHERE r.word = 'error') AS failed,
                count(*) FILTER (WHERE r.word = 'cancelled') AS left_out
            FROM (
                SELECT "{schema}".is_ready(t.state, t.lane, t.slot, t.due_at, w.paused) AS ready,
                    "{schema}".ten_words(t.state, t.waits) AS word FROM "{schema}".task_rows t
                WHERE t.id >= w.id AND t.id <= "{schema}".last_task(w.id) AND t.is_step OFFSET 0
            ) r
        ) n WHERE w.id = input_task_uuid
    ) c CROSS JOIN LATERAL (SELECT CASE
        WHEN c.failed > 0 THEN 'blocked_by_failures'
        WHEN c.ready > 0 THEN 'has_ready_steps'
        WHEN c.claimed + c.running > 0 THEN 'processing'
        WHEN c.done + c.left_out = c.total THEN 'all_complete'
        ELSE 'waiting_for_dependencies'
    END AS status) s
$$;
