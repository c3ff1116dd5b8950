DELETE FROM windlass.workers WHERE id = $1
