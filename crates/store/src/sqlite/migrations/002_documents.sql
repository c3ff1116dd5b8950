-- The relations that documents of the field name, with their columns and words, for reading.

-- Document 000: an agent task queue with entity locking.
CREATE VIEW task_queue AS SELECT
    lower(hex(t.id)) AS task_id,
    CASE WHEN t.lane LIKE '@%' THEN substr(t.lane, 2, instr(t.lane, ':') - 2) END AS entity_type,
    CASE WHEN t.lane LIKE '@%' THEN substr(t.lane, instr(t.lane, ':') + 1) END AS entity_id,
    t.kind AS function_name,
    p.payload AS payload,
    CASE
        WHEN t.state IN ('waiting', 'scheduled', 'pending') THEN 'PENDING'
        WHEN t.state IN ('claimed', 'running') THEN 'IN_PROGRESS'
        WHEN t.state IN ('completed', 'skipped', 'resolved_manually') THEN 'COMPLETED'
        ELSE 'FAILED'
    END AS status,
    CASE WHEN t.state = 'cancelled'
        THEN coalesce((SELECT h.note FROM history h WHERE h.task = t.seq AND h.n = t.entries), 'cancelled')
        ELSE t.error
    END AS error_message,
    CASE WHEN t.state IN ('claimed', 'running', 'completed') THEN max(t.attempt - 1, 0) ELSE t.attempt END
        AS retry_count,
    t.max_attempts AS max_retries,
    strftime('%Y-%m-%d %H:%M:%f', t.created_at / 1e6, 'unixepoch') AS created_at,
    strftime('%Y-%m-%d %H:%M:%f', t.updated_at / 1e6, 'unixepoch') AS updated_at
FROM tasks t LEFT JOIN payloads p ON p.task = t.seq;

-- Document 003: a row per change of status, in its four words. Changes that its words cannot tell apart are one row.
CREATE VIEW status_history AS
WITH words AS (
    SELECT h.task, h.n, h.at, h.note, CASE
        WHEN h.state IN ('claimed', 'running') THEN 'processing'
        WHEN h.state IN ('completed', 'skipped', 'resolved_manually') THEN 'completed'
        WHEN h.state IN ('failed', 'dead_letter', 'cancelled') THEN 'failed'
        ELSE 'pending'
    END AS status
    FROM history h
),
steps AS (
    SELECT *, lag(status) OVER (PARTITION BY task ORDER BY n) AS before FROM words
)
SELECT
    s.task * 1000000 + s.n AS id,
    lower(substr(hex(t.id), 1, 8) || '-' || substr(hex(t.id), 9, 4) || '-' || substr(hex(t.id), 13, 4) || '-'
        || substr(hex(t.id), 17, 4) || '-' || substr(hex(t.id), 21)) AS task_id,
    s.status AS status,
    strftime('%Y-%m-%d %H:%M:%f', s.at / 1e6, 'unixepoch') AS transitioned_at,
    coalesce(s.note, CASE WHEN s.before IS NULL THEN 'Task created'
        ELSE 'Transitioned from ' || s.before || ' to ' || s.status END) AS notes
FROM steps s JOIN tasks t ON t.seq = s.task
WHERE s.before IS NULL OR s.before <> s.status;
