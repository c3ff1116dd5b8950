-- Only those in this state have steps that can be claimed; of some of them workers have all. One whose moment has come is ready, as the core has
-- it, even if nobody has promoted it. Each step is looked up by its key, whatever is believed about the sizes of tables.
SELECT {workflow}, r.ready FROM windlass.workflows w CROSS JOIN LATERAL (
    SELECT count(*) AS ready FROM (
        SELECT k.seq FROM windlass.tasks k WHERE k.id >= w.id AND k.id <= windlass.last_task(w.id) AND k.is_step OFFSET 0
    ) t CROSS JOIN LATERAL (SELECT k.state, k.lane, k.slot, k.due_at FROM windlass.live k WHERE k.seq = t.seq OFFSET 0) l
    WHERE CASE
        WHEN l.state = 'pending' THEN l.lane IS NULL OR l.slot
        WHEN l.state IN ('scheduled', 'waiting_for_retry') THEN l.due_at <= coalesce($2, statement_timestamp())
        ELSE false
    END
) r
WHERE w.state = 'steps_in_process' AND NOT w.paused AND ($3::text IS NULL OR w.namespace = $3) AND ($4::text IS NULL OR w.name = $4) AND r.ready > 0
ORDER BY w.rank DESC, w.seq LIMIT $1
