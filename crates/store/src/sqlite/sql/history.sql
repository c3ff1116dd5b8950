SELECT n, state, at, reason, actor, note FROM history WHERE task = ? ORDER BY n
