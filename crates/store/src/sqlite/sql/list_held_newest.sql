-- The plus keeps the planner from walking the whole table in the order of seq.
SELECT * FROM task_rows WHERE worker IS NOT NULL AND finished_at IS NULL AND +seq < ? ORDER BY +seq DESC
