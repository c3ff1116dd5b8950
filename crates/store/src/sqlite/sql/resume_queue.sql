DELETE FROM paused_queues WHERE namespace = ? AND queue = ?
