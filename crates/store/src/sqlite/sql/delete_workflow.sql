DELETE FROM workflows WHERE seq = ?
