SELECT seq, version, content, created_at FROM definitions
WHERE namespace = ? AND name = ? AND version >= char(2) ORDER BY seq DESC LIMIT 1
