-- Tasks of workflows, as the workflow steps of document 002. Found by the id of a step as well as by that of its workflow: the two are compared in
-- both directions, and never for equality, so that each is looked up in an index of the other.
CREATE VIEW {prefix}tasker.workflow_steps AS SELECT
    r.id AS workflow_step_uuid,
    w.id AS task_uuid,
    "{schema}".named_id(w.namespace, w.name, "{schema}".shown_version(w.version), n.name) AS named_step_uuid,
    n.name || coalesce('[' || "{schema}".item_of(r.id) || ']', '') AS name,
    "{schema}".ten_words(r.state, r.waits) AS current_state,
    r.state NOT IN ('failed', 'dead_letter') AS retryable,
    coalesce(r.max_attempts, 3)::integer AS max_attempts,
    "{schema}".ten_words(r.state, r.waits) IN ('enqueued', 'in_progress') AS in_process,
    r.state IN ('completed', 'resolved_manually') AS processed,
    CASE WHEN r.state IN ('completed', 'resolved_manually') THEN r.finished_at END AS processed_at,
    r.attempt::integer AS attempts,
    coalesce(r.started_at, r.claimed_at) AS last_attempted_at,
    "{schema}".backoff_seconds(r.state, "{schema}".last_failure(r.seq), r.due_at) AS backoff_request_seconds,
    (SELECT "{schema}".quick_jsonb(t.payload) FROM "{schema}".tasks t WHERE t.seq = r.seq) AS inputs,
    (SELECT "{schema}".quick_jsonb(e.result) FROM "{schema}".ended e WHERE e.seq = r.seq) AS results,
    r.created_at,
    r.updated_at
FROM "{schema}".workflows w
JOIN "{schema}".task_rows r ON r.id >= w.id AND r.id <= "{schema}".last_task(w.id)
    AND w.id <= r.id AND w.id >= "{schema}".workflow_of(r.id) AND r.is_step
JOIN "{schema}".definitions d ON d.seq = w.definition
JOIN LATERAL unnest(d.names) WITH ORDINALITY AS n (name, number) ON n.number = "{schema}".step_of(r.id) + 1;
