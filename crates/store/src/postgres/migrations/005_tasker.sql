-- Document 002: readiness, execution, analytics and health of workflows, under the names that it gives. Its task is a workflow here, its
-- workflow step a task of one: a step, or an item of one. What is shared but not of the document is in the store's own schema.
CREATE SCHEMA IF NOT EXISTS {prefix}tasker;
