-- Definitions, those first whose workflows took longest on average.
SELECT t.namespace, t.name, t.version, NULL::text, NULL::uuid, NULL::uuid, t.executions, t.executions, t.errors, t.total, t.longest,
    t.shortest, t.steps, t.last
FROM (
    SELECT x.namespace, x.name, x.version COLLATE "C" AS version, count(*) AS executions, count(*) FILTER (WHERE x.state = 'error') AS errors,
        sum((x.seconds * 1000000)::bigint)::bigint AS total, max((x.seconds * 1000000)::bigint) AS longest,
        min((x.seconds * 1000000)::bigint) AS shortest, sum(x.steps)::bigint AS steps, max(x.finished_at) AS last
    FROM windlass.executed_tasks($1, $2, $3, $4) x GROUP BY 1, 2, 3
) t
WHERE t.executions >= $6 ORDER BY t.total / t.executions DESC, t.namespace, t.name, t.version LIMIT $5
