-- A walk from lane to lane: what it costs does not grow with the tasks that wait in a lane.
WITH RECURSIVE walk AS (
    (SELECT l.namespace, l.lane FROM windlass.live l
    WHERE l.lane IS NOT NULL AND NOT l.slot AND l.state = 'pending' AND (l.namespace, l.lane) > ($1, $2)
    ORDER BY l.namespace, l.lane LIMIT 1)
    UNION ALL
    SELECT n.namespace, n.lane FROM walk w CROSS JOIN LATERAL (
        SELECT l.namespace, l.lane FROM windlass.live l
        WHERE l.lane IS NOT NULL AND NOT l.slot AND l.state = 'pending' AND (l.namespace, l.lane) > (w.namespace, w.lane)
        ORDER BY l.namespace, l.lane LIMIT 1
    ) n
)
SELECT namespace, lane FROM walk LIMIT $3
