SELECT * FROM workflows WHERE parent = ?2 AND seq > ?1 ORDER BY seq
