-- Deletes the first events as far as they are old, or of a time that is over, and moves the place since which everything is known behind them.
WITH first AS MATERIALIZED (
    SELECT e.ctid AS row, e.xid, e.seq, e.at FROM windlass.events e
    WHERE e.xid < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY e.xid, e.seq LIMIT $2
), old AS MATERIALIZED (
    SELECT f.* FROM first f, windlass.listening l WHERE f.at < $1 OR (f.xid, f.seq) <= (l.xid, l.seq)
), gone AS (
    DELETE FROM windlass.events WHERE ctid = ANY (ARRAY(SELECT row FROM old))
)
UPDATE windlass.listening l SET xid = o.xid, seq = o.seq
FROM (SELECT xid, seq FROM old ORDER BY xid DESC, seq DESC LIMIT 1) o WHERE (l.xid, l.seq) < (o.xid, o.seq)
