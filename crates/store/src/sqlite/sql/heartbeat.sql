UPDATE workers SET heartbeat_at = max(heartbeat_at, ?2) WHERE id = ?1
