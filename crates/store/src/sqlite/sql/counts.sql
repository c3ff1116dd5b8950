SELECT namespace, queue, kind, state, tasks FROM counts WHERE tasks > 0
