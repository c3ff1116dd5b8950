-- Gives free slots of lanes to those who wait for one, in submit order, as sql/fill.sql does; whether there were any. The caller has the
-- lanes' locks.
CREATE FUNCTION fill_lanes(namespaces text[], keys text[]) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    given  bigint;
    opened boolean := false;
BEGIN
    LOOP
        WITH line AS (
            SELECT p.at, bool_and(c.taken + p.place <= p.lane_limit) OVER (
                PARTITION BY n.namespace, n.lane ORDER BY p.place) AS may
            FROM (SELECT DISTINCT u.namespace, u.lane FROM unnest(namespaces, keys) AS u (namespace, lane)) n
            CROSS JOIN LATERAL (
                SELECT count(*) AS taken FROM live l WHERE l.namespace = n.namespace AND l.lane = n.lane AND l.slot
            ) c
            CROSS JOIN LATERAL (
                SELECT w.*, row_number() OVER (ORDER BY w.seq) AS place FROM (
                    SELECT l.ctid AS at, l.seq, l.lane_limit FROM live l
                    WHERE l.namespace = n.namespace AND l.lane = n.lane AND l.lane IS NOT NULL AND NOT l.slot
                        AND l.state = 'pending'
                    ORDER BY l.seq LIMIT 100
                ) w
            ) p
        ), filled AS (
            UPDATE live SET slot = true WHERE ctid = ANY (ARRAY(SELECT at FROM line WHERE may)) RETURNING 1
        )
        SELECT count(*) INTO given FROM filled;
        opened := opened OR given > 0;
        EXIT WHEN given < 100;
    END LOOP;
    RETURN opened;
END $$;
