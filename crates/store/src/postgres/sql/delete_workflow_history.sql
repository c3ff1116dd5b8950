DELETE FROM windlass.workflow_history WHERE workflow = $1
