-- The steps and items that took longest, each by itself.
SELECT d.namespace, d.name, windlass.shown_version(d.version), d.names[s.step] || coalesce('[' || windlass.item_of(s.id) || ']', ''),
    s.workflow, s.id, 1::bigint, 1::bigint, (s.state <> 'completed')::integer::bigint, s.micros, s.micros, s.micros, 0::bigint, s.finished_at
FROM (
    SELECT x.*, (extract(epoch FROM x.took) * 1000000)::bigint AS micros FROM windlass.executed_steps($1, $2, $3, $4) x
    WHERE x.took IS NOT NULL ORDER BY x.took DESC, x.id LIMIT $5
) s JOIN windlass.definitions d ON d.seq = s.definition ORDER BY s.micros DESC, s.id
