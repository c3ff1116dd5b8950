SELECT content FROM definitions WHERE seq = ?
