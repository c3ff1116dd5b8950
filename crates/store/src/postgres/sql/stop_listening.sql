-- Nobody pays any more for one who has been gone for long. The minute is that of the function tell.
WITH over AS (
    UPDATE windlass.listening SET until = 'epoch'
    WHERE until + interval '1 minute' <= $1 AND (until <> 'epoch' OR pg_sequence_last_value('windlass.listened') IS DISTINCT FROM 1) RETURNING 1
)
SELECT windlass.switch_feed(false) FROM over
