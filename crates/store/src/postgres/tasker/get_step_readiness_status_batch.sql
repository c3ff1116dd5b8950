-- Of every step of these workflows: whether it can run, and what it has behind it. Ordered by workflow and step. What a step needs is counted as
-- its join says; completed_parents counts those that are done. Items come after nobody: their step did.
CREATE FUNCTION {prefix}tasker.get_step_readiness_status_batch(input_task_uuids uuid[]) RETURNS TABLE (
    workflow_step_uuid      uuid,
    task_uuid               uuid,
    named_step_uuid         uuid,
    name                    text,
    current_state           text,
    dependencies_satisfied  boolean,
    retry_eligible          boolean,
    ready_for_execution     boolean,
    last_failure_at         timestamptz,
    next_retry_at           timestamptz,
    total_parents           integer,
    completed_parents       integer,
    attempts                integer,
    max_attempts            integer,
    backoff_request_seconds integer,
    last_attempted_at       timestamptz
) LANGUAGE plpgsql STABLE PARALLEL SAFE
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    -- Arrays in variables are read anywhere in no time, as long as plans do not hold them; those of a row would be unpacked each time.
    flow      record;
    names     text[];
    needed    integer[];
    over      boolean[];
    places    integer[];
    parents   integer[];
    are_done  boolean[];
    are_over  boolean[];
BEGIN
    FOR flow IN
        SELECT w.id, w.definition, w.namespace, w.name, "{schema}".shown_version(w.version) AS version, w.paused
        FROM "{schema}".workflows w WHERE w.id = ANY (input_task_uuids) ORDER BY w.id
    LOOP
        SELECT d.names, d.needed, d.over, d.places, d.parents INTO names, needed, over, places, parents
        FROM "{schema}".definitions d WHERE d.seq = flow.definition;
        SELECT array_agg(r.state IN ('completed', 'resolved_manually') ORDER BY r.id), array_agg(r.finished_at IS NOT NULL ORDER BY r.id)
        INTO are_done, are_over
        FROM "{schema}".task_rows r
        WHERE r.id >= flow.id AND r.id <= "{schema}".last_task(flow.id) AND r.is_step AND "{schema}".item_of(r.id) IS NULL;
        RETURN QUERY SELECT
            r.id,
            flow.id,
            "{schema}".named_id(flow.namespace, flow.name, flow.version, names[r.step]),
            names[r.step] || coalesce('[' || r.item || ']', ''),
            "{schema}".ten_words(r.state, r.waits),
            r.item IS NOT NULL OR CASE WHEN over[r.step] THEN p.ended ELSE p.done END >= needed[r.step],
            r.attempt = 0 OR r.state <> 'failed' AND coalesce(r.attempt < r.max_attempts, true),
            "{schema}".is_ready(r.state, r.lane, r.slot, r.due_at, flow.paused),
            f.at,
            CASE WHEN r.state = 'waiting_for_retry' THEN r.due_at END,
            p.total::integer,
            p.done::integer,
            r.attempt::integer,
            coalesce(r.max_attempts, 3)::integer,
            "{schema}".backoff_seconds(r.state, f.at, r.due_at),
            coalesce(r.started_at, r.claimed_at)
        FROM (
            SELECT t.*, "{schema}".step_of(t.id) + 1 AS step, "{schema}".item_of(t.id) AS item FROM "{schema}".task_rows t
            WHERE t.id >= flow.id AND t.id <= "{schema}".last_task(flow.id) AND t.is_step ORDER BY t.id OFFSET 0
        ) r CROSS JOIN LATERAL (
            SELECT count(*) AS total, count(*) FILTER (WHERE are_done[parents[g] + 1]) AS done,
                count(*) FILTER (WHERE are_over[parents[g] + 1]) AS ended
            FROM generate_series(places[r.step] + 1, places[r.step + 1]) g WHERE r.item IS NULL
        ) p CROSS JOIN LATERAL (SELECT "{schema}".last_failure(r.seq) AS at OFFSET 0) f;
    END LOOP;
END $$;
