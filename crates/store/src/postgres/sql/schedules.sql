SELECT {schedule} FROM windlass.schedules ORDER BY namespace, name
