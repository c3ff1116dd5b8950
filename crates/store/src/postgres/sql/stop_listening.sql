-- Switches the feed off a minute after the last listener's time ran out. The minute is that of the function `tell`.
UPDATE windlass.listening SET until = 'epoch'
WHERE until + interval '1 minute' <= $1 AND (until <> 'epoch' OR pg_sequence_last_value('windlass.listened') IS DISTINCT FROM 1) RETURNING 1
