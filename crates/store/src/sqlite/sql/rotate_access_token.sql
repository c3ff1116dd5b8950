UPDATE access_tokens SET id = ?2, digest = ?3, previous = ?4 WHERE name = ?1
