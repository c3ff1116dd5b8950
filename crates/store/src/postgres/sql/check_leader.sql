-- Nobody else can win while this term is at work.
SELECT holder, term, until, coalesce($1, clock_timestamp()) FROM windlass.leader FOR SHARE
