-- What comes after a place, as long as nobody can come before it any more.
SELECT e.xid::text::bigint, e.seq, e.at, e.namespace, e.what, e.subject, e.queue, e.name, e.state, e.attempt
FROM windlass.events e
WHERE (e.xid, e.seq) > ($1::bigint::text::xid8, $2) AND e.xid < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY e.xid, e.seq LIMIT $3
