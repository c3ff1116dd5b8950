SELECT seq, lane, lane_limit, lane_strict FROM tasks
WHERE namespace = ? AND lane = ? AND slot = 0 AND state = 'pending'
ORDER BY seq LIMIT 1
