DELETE FROM activity WHERE minute < ?
