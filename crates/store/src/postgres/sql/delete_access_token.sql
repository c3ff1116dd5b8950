DELETE FROM windlass.access_tokens WHERE name = $1
