SELECT version FROM definitions
WHERE namespace = ? AND name = ? AND version >= char(2) AND content = ? ORDER BY seq DESC LIMIT 1
