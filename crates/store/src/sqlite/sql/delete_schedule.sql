DELETE FROM schedules WHERE namespace = ? AND name = ?
