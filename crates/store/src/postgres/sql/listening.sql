-- Until when changes are told, whether all of them are, what time it is, the last event that is not known, and the last of all.
SELECT l.until, l.ready, coalesce($1, clock_timestamp()), l.xid::text::bigint, l.seq,
    coalesce(e.xid, l.xid)::text::bigint, coalesce(e.seq, l.seq)
FROM windlass.listening l LEFT JOIN LATERAL (
    SELECT e.xid, e.seq FROM windlass.events e
    WHERE (e.xid, e.seq) > (l.xid, l.seq) AND e.xid < pg_snapshot_xmin(pg_current_snapshot())
    ORDER BY e.xid DESC, e.seq DESC LIMIT 1
) e ON true
