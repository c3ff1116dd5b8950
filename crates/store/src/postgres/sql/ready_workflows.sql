-- Only those in this state have steps that can be claimed; of some of them workers have all.
SELECT {workflow}, r.ready FROM windlass.workflows w CROSS JOIN LATERAL (
    SELECT count(*) AS ready FROM windlass.tasks t JOIN windlass.live l ON l.seq = t.seq
    WHERE t.id >= w.id AND t.id <= windlass.last_task(w.id) AND t.is_step AND l.state = 'pending' AND (l.lane IS NULL OR l.slot)
) r
WHERE w.state = 'steps_in_process' AND r.ready > 0 ORDER BY w.rank DESC, w.seq LIMIT $1
