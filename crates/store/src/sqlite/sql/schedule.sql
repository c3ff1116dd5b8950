SELECT * FROM schedules WHERE namespace = ? AND name = ?
