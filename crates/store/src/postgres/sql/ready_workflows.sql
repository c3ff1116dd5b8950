-- Only those in this state have steps that can be claimed; of some of them workers have all. Each step is looked up by its key, whatever is believed
-- about the sizes of tables.
SELECT {workflow}, r.ready FROM windlass.workflows w CROSS JOIN LATERAL (
    SELECT count(*) AS ready FROM (
        SELECT k.seq FROM windlass.tasks k WHERE k.id >= w.id AND k.id <= windlass.last_task(w.id) AND k.is_step OFFSET 0
    ) t CROSS JOIN LATERAL (SELECT k.state, k.lane, k.slot FROM windlass.live k WHERE k.seq = t.seq OFFSET 0) l
    WHERE l.state = 'pending' AND (l.lane IS NULL OR l.slot)
) r
WHERE w.state = 'steps_in_process' AND r.ready > 0 ORDER BY w.rank DESC, w.seq LIMIT $1
