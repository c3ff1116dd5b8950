INSERT INTO notes (task, lease, progress, details, dropped, lines) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET
    progress = excluded.progress, details = excluded.details, dropped = excluded.dropped, lines = excluded.lines
