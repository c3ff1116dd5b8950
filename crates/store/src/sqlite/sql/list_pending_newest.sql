-- From the two indexes that pending tasks are in; the plus keeps the planner from walking the whole table.
SELECT * FROM (
    SELECT * FROM task_rows WHERE state = 'pending' AND (lane IS NULL OR slot = 1) AND +seq < ?1
    UNION ALL
    SELECT * FROM task_rows WHERE lane IS NOT NULL AND slot = 0 AND state = 'pending' AND +seq < ?1
)
ORDER BY +seq DESC
