INSERT INTO windlass.notes (task, lease, progress, details, dropped, lines)
SELECT task, lease, progress::json, details::json, dropped, lines::json
FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::text[])
    AS u (task, lease, progress, details, dropped, lines)
ON CONFLICT (task, lease) DO UPDATE SET
    progress = excluded.progress, details = excluded.details, dropped = excluded.dropped, lines = excluded.lines
