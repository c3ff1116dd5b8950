DELETE FROM audit WHERE seq IN (SELECT seq FROM audit ORDER BY seq LIMIT ?2) AND at < ?1
