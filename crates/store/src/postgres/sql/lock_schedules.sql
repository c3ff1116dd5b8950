-- One at a time: the limit on their number holds.
SELECT count(*), coalesce($1, clock_timestamp()) FROM (SELECT pg_advisory_xact_lock({salt})) l, windlass.schedules
