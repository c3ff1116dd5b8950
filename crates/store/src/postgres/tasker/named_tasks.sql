-- Versions of definitions. Those that belong to one workflow alone are one row for each name, and the newest stands for them.
CREATE VIEW {prefix}tasker.named_tasks AS SELECT DISTINCT ON (d.namespace, d.name, "{schema}".shown_version(d.version))
    "{schema}".named_id(d.namespace, d.name, "{schema}".shown_version(d.version)) AS named_task_uuid,
    "{schema}".named_id(d.namespace) AS task_namespace_uuid,
    d.name,
    "{schema}".shown_version(d.version) AS version,
    "{schema}".as_jsonb(d.content) ->> 'description' AS description,
    "{schema}".as_jsonb(d.content) AS configuration,
    d.created_at,
    d.created_at AS updated_at
FROM "{schema}".definitions d
ORDER BY d.namespace, d.name, "{schema}".shown_version(d.version), d.seq DESC;
