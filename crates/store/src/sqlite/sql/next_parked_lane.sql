-- One step of a walk from lane to lane: what it costs does not grow with the tasks that wait in a lane.
SELECT namespace, lane FROM tasks
WHERE lane IS NOT NULL AND slot = 0 AND state = 'pending' AND (namespace, lane) > (?, ?)
ORDER BY namespace, lane LIMIT 1
