UPDATE tasks SET waits = ?2, met = ?3, others = ?4 WHERE seq = ?1
