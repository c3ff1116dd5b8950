-- Changes of the states of workflows: sort_key counts from 1, and one of each workflow is the most recent.
CREATE VIEW {prefix}tasker.task_transitions AS SELECT
    w.id AS task_uuid,
    h.n AS sort_key,
    h.n = w.entries AS most_recent,
    (SELECT b.state FROM "{schema}".workflow_history b WHERE b.workflow = h.workflow AND b.n = h.n - 1) AS from_state,
    h.state AS to_state,
    "{schema}".as_uuid(h.actor) AS processor_uuid,
    h.actor AS processor,
    "{schema}".metadata(h.note) AS transition_metadata,
    h.at AS created_at,
    h.at AS updated_at
FROM "{schema}".workflows w JOIN "{schema}".workflow_history h ON h.workflow = w.seq;
