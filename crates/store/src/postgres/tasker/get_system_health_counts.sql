-- Workflows and steps by state, and how many connections the server has and may have. Nothing is scanned: states are counted as they change.
CREATE FUNCTION {prefix}tasker.get_system_health_counts() RETURNS TABLE (
    pending_tasks                             bigint,
    initializing_tasks                        bigint,
    enqueuing_steps_tasks                     bigint,
    steps_in_process_tasks                    bigint,
    evaluating_results_tasks                  bigint,
    waiting_for_dependencies_tasks            bigint,
    waiting_for_retry_tasks                   bigint,
    blocked_by_failures_tasks                 bigint,
    complete_tasks                            bigint,
    error_tasks                               bigint,
    cancelled_tasks                           bigint,
    resolved_manually_tasks                   bigint,
    total_tasks                               bigint,
    pending_steps                             bigint,
    enqueued_steps                            bigint,
    in_progress_steps                         bigint,
    enqueued_for_orchestration_steps          bigint,
    enqueued_as_error_for_orchestration_steps bigint,
    waiting_for_retry_steps                   bigint,
    complete_steps                            bigint,
    error_steps                               bigint,
    cancelled_steps                           bigint,
    resolved_manually_steps                   bigint,
    total_steps                               bigint,
    active_connections                        bigint,
    max_connections                           bigint
) LANGUAGE sql STABLE PARALLEL RESTRICTED SET jit = off AS $$
    SELECT
        coalesce(w.of ->> 'pending', '0')::bigint,
        coalesce(w.of ->> 'initializing', '0')::bigint,
        coalesce(w.of ->> 'enqueuing_steps', '0')::bigint,
        coalesce(w.of ->> 'steps_in_process', '0')::bigint,
        coalesce(w.of ->> 'evaluating_results', '0')::bigint,
        coalesce(w.of ->> 'waiting_for_dependencies', '0')::bigint,
        coalesce(w.of ->> 'waiting_for_retry', '0')::bigint,
        coalesce(w.of ->> 'blocked_by_failures', '0')::bigint,
        coalesce(w.of ->> 'complete', '0')::bigint,
        coalesce(w.of ->> 'error', '0')::bigint,
        coalesce(w.of ->> 'cancelled', '0')::bigint,
        coalesce(w.of ->> 'resolved_manually', '0')::bigint,
        coalesce(w.total, 0)::bigint,
        coalesce(s.of ->> 'pending', '0')::bigint,
        coalesce(s.of ->> 'enqueued', '0')::bigint,
        coalesce(s.of ->> 'in_progress', '0')::bigint,
        -- Nothing is queued on its way back.
        0::bigint,
        0::bigint,
        coalesce(s.of ->> 'waiting_for_retry', '0')::bigint,
        coalesce(s.of ->> 'complete', '0')::bigint,
        coalesce(s.of ->> 'error', '0')::bigint,
        coalesce(s.of ->> 'cancelled', '0')::bigint,
        coalesce(s.of ->> 'resolved_manually', '0')::bigint,
        coalesce(s.total, 0)::bigint,
        c.active,
        current_setting('max_connections')::bigint
    FROM (
        SELECT jsonb_object_agg(n.state, n.many) AS of, sum(n.many) AS total
        FROM (SELECT k.state, sum(k.workflows) AS many FROM "{schema}".workflow_counts k GROUP BY k.state) n
    ) w CROSS JOIN (
        SELECT jsonb_object_agg(n.state, n.many) AS of, sum(n.many) AS total
        FROM (
            -- What a step waits for is not counted: a step whose items or workflow work is pending here.
            SELECT "{schema}".ten_words(k.state, NULL) AS state, sum(k.tasks) AS many FROM "{schema}".counts k WHERE k.is_step GROUP BY 1
        ) n
    ) s CROSS JOIN (SELECT count(*) AS active FROM pg_stat_activity a WHERE a.datid IS NOT NULL AND a.usesysid IS NOT NULL) c
$$;
