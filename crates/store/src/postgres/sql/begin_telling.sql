-- From here on all changes are known: nobody is at work any more who did not know that somebody listens.
UPDATE windlass.listening SET ready = true, xid = pg_snapshot_xmin(pg_current_snapshot()), seq = 0 WHERE NOT ready AND until = $1
