DELETE FROM windlass.activity WHERE minute < $1
