-- Steps of definitions; of those that belong to one workflow alone, one row for each name.
CREATE VIEW {prefix}tasker.named_steps AS SELECT DISTINCT ON (d.namespace, d.name, "{schema}".shown_version(d.version), n.name)
    "{schema}".named_id(d.namespace, d.name, "{schema}".shown_version(d.version), n.name) AS named_step_uuid,
    "{schema}".named_id(d.namespace, d.name, "{schema}".shown_version(d.version)) AS named_task_uuid,
    n.name,
    n.kind AS handler,
    d.created_at,
    d.created_at AS updated_at
FROM "{schema}".definitions d CROSS JOIN LATERAL unnest(d.names, d.kinds) AS n (name, kind)
ORDER BY d.namespace, d.name, "{schema}".shown_version(d.version), n.name, d.seq DESC;
