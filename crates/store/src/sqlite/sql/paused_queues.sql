SELECT namespace, queue FROM paused_queues ORDER BY namespace, queue
