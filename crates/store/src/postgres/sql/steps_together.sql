-- Steps of definitions, those first that took longest on average. By number first: names are looked up once for each step of a definition.
SELECT s.namespace, s.name, s.version, s.step, NULL::uuid, NULL::uuid, s.executions, s.timed, s.errors, s.total, s.longest, s.shortest,
    0::bigint, s.last
FROM (
    SELECT d.namespace, d.name, windlass.shown_version(d.version) AS version, d.names[g.step] COLLATE "C" AS step,
        sum(g.executions)::bigint AS executions, sum(g.timed)::bigint AS timed, sum(g.errors)::bigint AS errors,
        coalesce((extract(epoch FROM sum(g.total)) * 1000000)::bigint, 0) AS total,
        coalesce((extract(epoch FROM max(g.longest)) * 1000000)::bigint, 0) AS longest,
        coalesce((extract(epoch FROM min(g.shortest)) * 1000000)::bigint, 0) AS shortest, max(g.last) AS last
    FROM (
        SELECT x.definition, x.step, count(*) AS executions, count(x.took) AS timed, count(*) FILTER (WHERE x.state <> 'completed') AS errors,
            sum(x.took) AS total, max(x.took) AS longest, min(x.took) AS shortest, max(x.finished_at) AS last
        FROM windlass.executed_steps($1, $2, $3, $4) x GROUP BY x.definition, x.step
    ) g JOIN windlass.definitions d ON d.seq = g.definition
    GROUP BY d.namespace, d.name, windlass.shown_version(d.version), d.names[g.step]
) s
WHERE s.executions >= $6 ORDER BY s.total / greatest(s.timed, 1) DESC, s.namespace, s.name, s.version COLLATE "C", s.step LIMIT $5
