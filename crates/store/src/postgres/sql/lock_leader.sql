SELECT holder, term, until, coalesce($1, clock_timestamp()) FROM windlass.leader FOR UPDATE
