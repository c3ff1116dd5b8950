-- Adds to the numbers of workflows, each connection in its own part.
INSERT INTO windlass.workflow_counts AS c (namespace, name, state, part, workflows)
SELECT u.namespace, u.name, u.state, pg_backend_pid() % {parts}, u.workflows
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) AS u (namespace, name, state, workflows)
ON CONFLICT (namespace, name, state, part) DO UPDATE SET workflows = c.workflows + excluded.workflows
