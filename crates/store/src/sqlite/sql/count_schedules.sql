SELECT count(*) FROM schedules
