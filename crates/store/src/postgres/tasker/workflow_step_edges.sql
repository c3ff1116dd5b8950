-- Which step comes after which. Items come after nobody: their step did. Found by the step that an edge leads to, or by the workflow; by where it
-- comes from only together with the workflow.
CREATE VIEW {prefix}tasker.workflow_step_edges AS SELECT
    "{schema}".step_id(w.id, p.parent) AS from_step_uuid,
    t.id AS to_step_uuid,
    'provides'::text AS name,
    w.id AS task_uuid,
    t.created_at,
    t.created_at AS updated_at
FROM "{schema}".workflows w
JOIN "{schema}".tasks t ON t.id >= w.id AND t.id <= "{schema}".last_task(w.id)
    AND w.id <= t.id AND w.id >= "{schema}".workflow_of(t.id) AND t.is_step
JOIN LATERAL "{schema}".edges_of(w.definition) p ON p.step = "{schema}".step_of(t.id)
WHERE "{schema}".item_of(t.id) IS NULL;
