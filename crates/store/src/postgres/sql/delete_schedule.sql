DELETE FROM windlass.schedules WHERE namespace = $1 AND name = $2
