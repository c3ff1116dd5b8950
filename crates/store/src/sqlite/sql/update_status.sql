UPDATE tasks SET
    state = ?2, attempt = ?3, lease = ?4, worker = ?5, due_at = ?6, claimed_at = ?7, started_at = ?8, finished_at = ?9,
    updated_at = ?10, error = ?11, slot = ?12, rank = ?13, entries = ?14, waits = ?15, met = ?16, others = ?17, result = ?18
WHERE seq = ?1
