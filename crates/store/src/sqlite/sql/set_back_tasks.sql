-- Task::due_when_set_back, for all.
UPDATE tasks SET due_at = CASE WHEN lease = 0 THEN ?1 ELSE due_at - ?2 END
WHERE due_at > ?1 AND updated_at > ?1 AND (lease > 0 OR due_at <= ?1 + ?2)
