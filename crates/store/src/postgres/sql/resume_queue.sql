DELETE FROM windlass.paused_queues WHERE namespace = $1 AND queue = $2
