SELECT namespace, name, state, workflows FROM workflow_counts WHERE workflows > 0
