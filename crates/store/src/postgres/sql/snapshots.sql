-- The oldest transaction that makes the server keep what is dead in this database, and for how many seconds it has been open, where that
-- may be seen. A VACUUM is not in the way.
SELECT o.xid::text, extract(epoch FROM clock_timestamp() - o.since)::float8 FROM (
    SELECT u.xid, a.xact_start AS since
    FROM pg_stat_activity a CROSS JOIN LATERAL unnest(ARRAY[a.backend_xid, a.backend_xmin]) AS u (xid)
    WHERE a.pid <> pg_backend_pid() AND (a.datname IS NULL OR a.datname = current_database())
        AND NOT EXISTS (SELECT FROM pg_stat_progress_vacuum v WHERE v.pid = a.pid)
    UNION ALL
    SELECT p.transaction, p.prepared FROM pg_prepared_xacts p WHERE p.database = current_database()
    UNION ALL
    SELECT s.xmin, NULL FROM pg_replication_slots s
) o WHERE o.xid IS NOT NULL ORDER BY age(o.xid) DESC LIMIT 1
