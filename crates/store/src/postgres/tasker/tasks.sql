-- Workflows, as the tasks of document 002.
CREATE VIEW {prefix}tasker.tasks AS SELECT
    w.id AS task_uuid,
    "{schema}".named_id(w.namespace, w.name, "{schema}".shown_version(w.version)) AS named_task_uuid,
    w.state AS current_state,
    w.state IN ('complete', 'resolved_manually') AS complete,
    w.priority,
    (SELECT h.actor FROM "{schema}".workflow_history h WHERE h.workflow = w.seq AND h.n = 1) AS initiator,
    "{schema}".as_jsonb(i.input) AS context,
    w.key AS identity_hash,
    "{schema}".workflow_of(w.parent) AS parent_task_uuid,
    w.created_at AS requested_at,
    w.finished_at AS completed_at,
    w.created_at,
    w.updated_at
FROM "{schema}".workflows w LEFT JOIN "{schema}".inputs i ON i.workflow = w.seq;
