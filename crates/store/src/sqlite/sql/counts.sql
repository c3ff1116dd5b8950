SELECT namespace, queue, kind, is_step, state, tasks FROM counts WHERE tasks > 0
