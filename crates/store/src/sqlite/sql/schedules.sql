SELECT * FROM schedules ORDER BY namespace, name
