-- Adds to the numbers of tasks, each connection in its own part.
INSERT INTO windlass.counts AS c (namespace, queue, kind, is_step, state, part, tasks)
SELECT u.namespace, u.queue, u.kind, u.is_step, u.state, pg_backend_pid() % {parts}, u.tasks
FROM unnest($1::text[], $2::text[], $3::text[], $4::boolean[], $5::text[], $6::bigint[])
    AS u (namespace, queue, kind, is_step, state, tasks)
ON CONFLICT (namespace, queue, kind, is_step, state, part) DO UPDATE SET tasks = c.tasks + excluded.tasks
