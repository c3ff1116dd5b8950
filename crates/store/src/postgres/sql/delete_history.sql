DELETE FROM windlass.history_rows WHERE task = ANY ($1)
