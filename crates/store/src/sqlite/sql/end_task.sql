UPDATE tasks SET state = ?2, started_at = ?3, finished_at = ?4, updated_at = ?5, entries = ?6, result = ?7
WHERE seq = ?1
