SELECT n, state, at, actor, note FROM workflow_history WHERE workflow = ? ORDER BY n
