-- The workflows that took longest, each by itself.
SELECT t.namespace, t.name, t.version, NULL::text, t.id, NULL::uuid, 1::bigint, 1::bigint, (t.state = 'error')::integer::bigint,
    t.micros, t.micros, t.micros, t.steps, t.finished_at
FROM (SELECT x.*, (x.seconds * 1000000)::bigint AS micros FROM windlass.executed_tasks($1, $2, $3, $4) x) t
ORDER BY t.micros DESC, t.id LIMIT $5
