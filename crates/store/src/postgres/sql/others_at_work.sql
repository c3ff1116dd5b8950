-- The transactions that may be changing tasks or workflows.
SELECT DISTINCT k.virtualtransaction FROM pg_locks k
WHERE k.locktype = 'relation' AND k.mode = 'RowExclusiveLock' AND k.granted AND k.pid IS DISTINCT FROM pg_backend_pid()
    AND k.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
    AND k.relation IN ('windlass.live'::regclass, 'windlass.ended'::regclass, 'windlass.workflows'::regclass)
