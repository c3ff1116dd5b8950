-- Changes of the states of steps. Those that the ten words cannot tell apart are one row.
CREATE VIEW {prefix}tasker.workflow_step_transitions AS SELECT
    t.id AS workflow_step_uuid,
    h.sort_key::integer AS sort_key,
    h.most_recent,
    h.from_state,
    h.to_state,
    "{schema}".as_uuid(h.actor) AS processor_uuid,
    h.actor AS processor,
    "{schema}".metadata(h.note) AS metadata,
    h.at AS created_at,
    h.at AS updated_at
FROM "{schema}".tasks t CROSS JOIN LATERAL (
    SELECT c.*, row_number() OVER (ORDER BY c.n) AS sort_key, lead(c.n) OVER (ORDER BY c.n) IS NULL AS most_recent
    FROM (
        SELECT s.*, lag(s.to_state) OVER (ORDER BY s.n) AS from_state
        FROM (
            SELECT r.n, r.at, r.actor, r.note, "{schema}".ten_words(r.state,
                CASE r.reason WHEN 'expanded' THEN 'items' WHEN 'nested' THEN 'workflow' END) AS to_state
            FROM "{schema}".history r WHERE r.task = t.seq
        ) s
    ) c WHERE c.from_state IS DISTINCT FROM c.to_state
) h WHERE t.is_step;
