SELECT seq, version, content, created_at FROM definitions WHERE namespace = ? AND name = ? AND version = ?
