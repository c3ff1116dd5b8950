-- Gives free slots of lanes to those who wait for one, in submit order. The head of the line decides: if it cannot
-- start, nobody overtakes it. The caller has the lanes' locks. The lane is compared in both directions, and never for equality, so that
-- only the index of those who wait has the order that is asked for, and the key of the table has not.
WITH lanes AS (
    SELECT DISTINCT namespace, lane FROM unnest($1::text[], $2::text[]) AS u (namespace, lane)
), line AS (
    SELECT p.at, bool_and(c.taken + p.place <= p.lane_limit) OVER (
        PARTITION BY n.namespace, n.lane ORDER BY p.place) AS may
    FROM lanes n
    CROSS JOIN LATERAL (
        SELECT count(*) AS taken FROM windlass.live l WHERE l.namespace = n.namespace AND l.lane = n.lane AND l.slot
    ) c
    CROSS JOIN LATERAL (
        SELECT w.*, row_number() OVER (ORDER BY w.seq) AS place FROM (
            SELECT l.ctid AS at, l.seq, l.lane_limit FROM windlass.live l
            WHERE (l.namespace, l.lane) >= (n.namespace, n.lane) AND (l.namespace, l.lane) <= (n.namespace, n.lane)
                AND l.lane IS NOT NULL AND NOT l.slot AND l.state = 'pending'
            ORDER BY l.namespace, l.lane, l.seq LIMIT $3
        ) w
    ) p
), given AS (
    UPDATE windlass.live SET slot = true WHERE ctid = ANY (ARRAY(SELECT at FROM line WHERE may)) RETURNING namespace, queue, kind, rank, seq
)
SELECT * FROM given
