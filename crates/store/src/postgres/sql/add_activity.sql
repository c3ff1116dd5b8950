INSERT INTO windlass.activity AS a
    (minute, namespace, part, started, completed, failed, lasted, steps, failed_steps, steps_lasted)
VALUES ($1, $2, pg_backend_pid() % {parts}, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (minute, namespace, part) DO UPDATE SET
    started = a.started + excluded.started, completed = a.completed + excluded.completed, failed = a.failed + excluded.failed,
    lasted = a.lasted + excluded.lasted, steps = a.steps + excluded.steps,
    failed_steps = a.failed_steps + excluded.failed_steps, steps_lasted = a.steps_lasted + excluded.steps_lasted
