DELETE FROM windlass.audit WHERE ctid = ANY (ARRAY(
    SELECT a.at_row FROM (SELECT ctid AS at_row, at FROM windlass.audit ORDER BY seq LIMIT $2) a WHERE a.at < $1))
