SELECT namespace, queue FROM windlass.paused_queues ORDER BY namespace, queue
