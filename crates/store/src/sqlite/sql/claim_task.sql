UPDATE tasks SET state = ?2, attempt = ?3, lease = ?4, worker = ?5, claimed_at = ?6, updated_at = ?7, entries = ?8
WHERE seq = ?1
