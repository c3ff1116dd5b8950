INSERT INTO activity (minute, namespace, started, completed, failed, lasted, steps, failed_steps, steps_lasted)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT DO UPDATE SET
    started = started + ?3, completed = completed + ?4, failed = failed + ?5, lasted = lasted + ?6, steps = steps + ?7,
    failed_steps = failed_steps + ?8, steps_lasted = steps_lasted + ?9
