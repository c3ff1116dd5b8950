INSERT INTO windlass.history_rows (task, n, state, at, reason, actor, note)
SELECT unnest($1::bigint[]), unnest($2::integer[]), unnest($3::text[]), unnest($4::timestamptz[]), unnest($5::text[]),
    unnest($6::text[]), unnest($7::text[])
