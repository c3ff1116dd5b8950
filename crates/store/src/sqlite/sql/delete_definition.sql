DELETE FROM definitions WHERE seq = ?
