UPDATE counts SET tasks = tasks - ?6
WHERE namespace = ?1 AND queue = ?2 AND kind = ?3 AND is_step = ?4 AND state = ?5
