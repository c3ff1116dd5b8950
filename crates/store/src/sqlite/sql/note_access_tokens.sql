INSERT OR IGNORE INTO had_access_tokens VALUES (1)
