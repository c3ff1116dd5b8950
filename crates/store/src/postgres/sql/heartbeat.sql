UPDATE windlass.workers SET heartbeat_at = greatest(heartbeat_at, coalesce($2, clock_timestamp())) WHERE id = $1
