DELETE FROM windlass.history WHERE task = ANY ($1)
