-- Never back, and not one of the same name that was made later.
UPDATE access_tokens SET last_used_at = ?2
WHERE name = ?1 AND created_at <= ?2 AND (last_used_at IS NULL OR last_used_at < ?2)
