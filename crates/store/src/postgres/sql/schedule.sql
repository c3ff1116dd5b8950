SELECT {schedule} FROM windlass.schedules WHERE namespace = $1 AND name = $2 FOR UPDATE
