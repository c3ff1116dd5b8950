SELECT 1 FROM paused_queues WHERE namespace = ? AND queue = ?
