-- Events are told in the order of transactions, but one that was numbered first may change what another has written and committed since: then the
-- later change was told first. So an event counts as of the last transaction that had ended when it was written, if that is later than its own:
-- whatever changed the same row before is not after it, and `seq` tells the two apart. Readers still wait for every transaction that is open.
ALTER TABLE events ALTER COLUMN xid SET DEFAULT
    greatest(pg_current_xact_id(), (pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1)::text::xid8);
