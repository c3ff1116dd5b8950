-- Tenants that have definitions.
CREATE VIEW {prefix}tasker.task_namespaces AS SELECT
    "{schema}".named_id(d.namespace) AS task_namespace_uuid,
    d.namespace AS name,
    min(d.created_at) AS created_at,
    max(d.created_at) AS updated_at
FROM "{schema}".definitions d GROUP BY d.namespace;
