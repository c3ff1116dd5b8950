-- Tasks of workflows, as the workflow steps of document 002. Found by the id of a step as well as by that of its workflow.
CREATE VIEW {prefix}tasker.workflow_steps AS SELECT
    t.id AS workflow_step_uuid,
    w.id AS task_uuid,
    {schema}.named_id(w.namespace, w.name, {schema}.shown_version(w.version), n.name) AS named_step_uuid,
    n.name || coalesce('[' || {schema}.item_of(t.id) || ']', '') AS name,
    {schema}.ten_words(coalesce(l.state, e.state), l.waits) AS current_state,
    coalesce(e.state NOT IN ('failed', 'dead_letter'), true) AS retryable,
    coalesce(t.max_attempts, 3)::integer AS max_attempts,
    {schema}.ten_words(coalesce(l.state, e.state), l.waits) IN ('enqueued', 'in_progress') AS in_process,
    coalesce(e.state IN ('completed', 'resolved_manually'), false) AS processed,
    CASE WHEN e.state IN ('completed', 'resolved_manually') THEN e.finished_at END AS processed_at,
    coalesce(l.attempt, e.attempt)::integer AS attempts,
    coalesce(l.started_at, l.claimed_at, e.started_at, e.claimed_at) AS last_attempted_at,
    {schema}.backoff_seconds(l.state, {schema}.last_failure(t.seq), l.due_at) AS backoff_request_seconds,
    {schema}.as_jsonb(t.payload) AS inputs,
    {schema}.as_jsonb(e.result) AS results,
    t.created_at,
    coalesce(l.updated_at, e.updated_at) AS updated_at
FROM {schema}.workflows w
JOIN {schema}.definitions d ON d.seq = w.definition
CROSS JOIN LATERAL unnest(d.names) WITH ORDINALITY AS n (name, number)
JOIN {schema}.tasks t ON t.id >= {schema}.step_id(w.id, n.number::integer - 1) AND t.id < {schema}.step_id(w.id, n.number::integer)
    AND w.id = {schema}.workflow_of(t.id) AND t.is_step
LEFT JOIN {schema}.live l ON l.seq = t.seq LEFT JOIN {schema}.ended e ON e.seq = t.seq
WHERE l.seq IS NOT NULL OR e.seq IS NOT NULL;
