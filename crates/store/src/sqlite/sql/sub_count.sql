UPDATE counts SET tasks = tasks - ?5 WHERE namespace = ?1 AND queue = ?2 AND kind = ?3 AND state = ?4
