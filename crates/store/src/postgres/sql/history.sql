INSERT INTO windlass.history_rows (task, n, state, at, reason, actor, note)
SELECT * FROM unnest(
    $1::bigint[], $2::integer[], $3::text[], $4::timestamptz[], $5::text[], $6::text[], $7::text[])
