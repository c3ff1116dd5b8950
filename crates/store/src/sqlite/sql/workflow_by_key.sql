SELECT * FROM workflows WHERE namespace = ? AND name = ? AND key = ?
