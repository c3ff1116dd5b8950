UPDATE workers SET heartbeat_at = ?1 WHERE heartbeat_at > ?1
