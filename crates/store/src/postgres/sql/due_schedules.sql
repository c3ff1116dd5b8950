SELECT {schedule} FROM windlass.schedules WHERE NOT paused AND next_at <= $1 ORDER BY next_at, namespace, name LIMIT $2
