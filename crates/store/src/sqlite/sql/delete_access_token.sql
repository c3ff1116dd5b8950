DELETE FROM access_tokens WHERE name = ?
