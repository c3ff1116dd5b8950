-- What a claim that finds nothing reads: tasks whose moment has come, and which nobody has promoted yet.
CREATE INDEX tasks_due_to_claim ON tasks (namespace, queue, kind, due_at) WHERE due_at IS NOT NULL;
