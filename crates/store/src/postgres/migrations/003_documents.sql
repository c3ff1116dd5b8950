-- The relations that documents of the field name, with their columns and words, for reading. Each document has a schema of its own,
-- since their names collide.
CREATE SCHEMA IF NOT EXISTS {prefix}agents;
CREATE SCHEMA IF NOT EXISTS {prefix}orchestrator;
CREATE SCHEMA IF NOT EXISTS {prefix}circuits;

-- JSON as the documents want it. What jsonb refuses (\u0000, half a surrogate pair, a number beyond all bounds) is shown as a
-- string that holds its text: nothing is lost, and no reader is stopped by one row.
CREATE FUNCTION as_jsonb(value json) RETURNS jsonb LANGUAGE plpgsql STABLE STRICT AS $$
BEGIN
    RETURN value::jsonb;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN to_jsonb(value::text);
END $$;

-- The four words of document 003.
CREATE FUNCTION four_words(state text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN state IN ('claimed', 'running') THEN 'processing'
        WHEN state IN ('completed', 'skipped', 'resolved_manually') THEN 'completed'
        WHEN state IN ('failed', 'dead_letter', 'cancelled') THEN 'failed'
        ELSE 'pending'
    END
$$;

-- Every task with where it stands: one row each, found by the keys of the tables.
CREATE VIEW document_rows AS SELECT
    t.seq, t.id, t.kind, t.lane, t.priority, t.key, t.max_attempts, t.created_at, t.payload, e.result,
    coalesce(l.state, e.state) AS state,
    coalesce(l.attempt, e.attempt) AS attempt,
    coalesce(l.worker, e.worker) AS worker,
    coalesce(l.claimed_at, e.claimed_at) AS claimed_at,
    coalesce(l.started_at, e.started_at) AS started_at,
    l.due_at,
    e.finished_at,
    coalesce(l.updated_at, e.updated_at) AS updated_at,
    -- Who stopped a task may have said why.
    CASE WHEN e.state = 'cancelled'
        THEN coalesce((SELECT h.note FROM history_rows h WHERE h.task = t.seq AND h.n = e.entries), 'cancelled')
        ELSE coalesce(l.error, e.error)
    END AS error
FROM tasks t LEFT JOIN live l ON l.seq = t.seq LEFT JOIN ended e ON e.seq = t.seq
WHERE l.seq IS NOT NULL OR e.seq IS NOT NULL;

-- Document 000: an agent task queue with entity locking.
CREATE VIEW {prefix}agents.task_queue AS SELECT
    replace(r.id::text, '-', '') AS task_id,
    CASE WHEN r.lane LIKE '@%' THEN substr(split_part(r.lane, ':', 1), 2) END AS entity_type,
    CASE WHEN r.lane LIKE '@%' THEN substr(r.lane, strpos(r.lane, ':') + 1) END AS entity_id,
    r.kind AS function_name,
    r.payload,
    CASE
        WHEN r.state IN ('waiting', 'scheduled', 'pending') THEN 'PENDING'
        WHEN r.state IN ('claimed', 'running') THEN 'IN_PROGRESS'
        WHEN r.state IN ('completed', 'skipped', 'resolved_manually') THEN 'COMPLETED'
        ELSE 'FAILED'
    END AS status,
    r.error AS error_message,
    (CASE WHEN r.state IN ('claimed', 'running', 'completed') THEN greatest(r.attempt - 1, 0) ELSE r.attempt END)::integer
        AS retry_count,
    r.max_attempts::integer AS max_retries,
    r.created_at,
    r.updated_at
FROM document_rows r;

-- Document 001: an orchestrator with workers and a leader. A task that waits for its moment is pending there, with the moment
-- beside it; one that was cancelled has failed. Every end has its time.
CREATE VIEW {prefix}orchestrator.tasks AS SELECT
    r.id,
    r.kind AS type,
    as_jsonb(r.payload) AS payload,
    CASE
        WHEN r.state IN ('claimed', 'running', 'failed', 'dead_letter') THEN r.state
        WHEN r.state IN ('completed', 'skipped', 'resolved_manually') THEN 'completed'
        WHEN r.state = 'cancelled' THEN 'failed'
        ELSE 'pending'
    END AS status,
    r.priority,
    r.key AS idempotency_key,
    r.worker AS worker_id,
    r.created_at,
    r.claimed_at,
    r.started_at,
    r.finished_at AS completed_at,
    r.updated_at,
    r.attempt::integer AS attempts,
    r.max_attempts::integer AS max_retries,
    coalesce(r.error, CASE WHEN r.attempt > 0 THEN (
        SELECT h.note FROM history_rows h WHERE h.task = r.seq AND h.reason IN ('failed', 'lease_expired')
        ORDER BY h.n DESC LIMIT 1
    ) END) AS last_error,
    r.due_at AS next_retry_at
FROM document_rows r;

CREATE VIEW {prefix}orchestrator.workers AS SELECT
    w.id,
    w.host AS hostname,
    w.started_at,
    w.heartbeat_at AS last_heartbeat,
    w.pool_size::integer AS pool_size,
    w.version,
    -- A lease that is over leads nobody.
    coalesce(l.until > clock_timestamp(), false) AS is_leader,
    l.until AS leader_until
FROM workers w LEFT JOIN leader l ON l.holder = w.id;

-- Document 003: circuits to be run. The circuit is the payload: its text, if it is a string or has one under that name.
CREATE VIEW {prefix}circuits.tasks AS SELECT
    r.id AS task_id,
    coalesce(nullif(CASE json_typeof(r.payload)
        WHEN 'string' THEN as_jsonb(r.payload) #>> '{}'
        WHEN 'object' THEN as_jsonb(r.payload) ->> 'circuit'
    END, ''), r.payload::text) AS circuit,
    r.created_at AS submitted_at,
    four_words(r.state) AS current_status,
    r.finished_at AS completed_at,
    -- What is completed has a result, even if that is null.
    CASE WHEN four_words(r.state) = 'completed' THEN coalesce(as_jsonb(r.result), 'null') END AS result,
    CASE WHEN four_words(r.state) = 'failed' THEN r.error END AS error_message
FROM document_rows r;

-- A row per change of status. Changes that four words cannot tell apart are one row. Times may be equal; ids tell the order.
CREATE VIEW {prefix}circuits.status_history AS SELECT
    t.seq * 1000000 + h.n AS id,
    t.id AS task_id,
    four_words(h.state) AS status,
    h.at AS transitioned_at,
    coalesce(h.note, CASE WHEN h.before IS NULL THEN 'Task created'
        ELSE format('Transitioned from %s to %s', four_words(h.before), four_words(h.state)) END) AS notes
FROM tasks t CROSS JOIN LATERAL (
    SELECT s.*, lag(s.state) OVER (ORDER BY s.n) AS before FROM history s WHERE s.task = t.seq
) h
WHERE h.before IS NULL OR four_words(h.before) <> four_words(h.state);
