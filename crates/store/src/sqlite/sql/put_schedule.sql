INSERT INTO schedules (
    namespace, name, cron, zone, template, missed, overlap, paused, next_at, last_at, last_task, fired, skipped, error,
    updated_at, left_out)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET
    cron = excluded.cron, zone = excluded.zone, template = excluded.template, missed = excluded.missed,
    overlap = excluded.overlap, paused = excluded.paused, next_at = excluded.next_at, last_at = excluded.last_at,
    last_task = excluded.last_task, fired = excluded.fired, skipped = excluded.skipped, error = excluded.error,
    updated_at = excluded.updated_at, left_out = excluded.left_out
