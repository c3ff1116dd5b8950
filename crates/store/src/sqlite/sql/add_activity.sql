INSERT INTO activity (minute, started, completed, failed, lasted, steps, failed_steps, steps_lasted)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT DO UPDATE SET
    started = started + ?2, completed = completed + ?3, failed = failed + ?4, lasted = lasted + ?5, steps = steps + ?6,
    failed_steps = failed_steps + ?7, steps_lasted = steps_lasted + ?8
