DELETE FROM windlass.definitions WHERE seq = $1
