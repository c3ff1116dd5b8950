UPDATE tasks SET
    state = ?2, attempt = ?3, lease = ?4, worker = ?5, claimed_at = ?6, started_at = ?7, finished_at = ?8, updated_at = ?9,
    entries = ?10, result = ?11
WHERE seq = ?1
