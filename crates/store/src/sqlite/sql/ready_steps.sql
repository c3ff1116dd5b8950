SELECT count(*) FROM tasks WHERE id >= ? AND id <= ? AND is_step = 1 AND (state = 'pending' AND (lane IS NULL OR slot = 1)
    OR state IN ('scheduled', 'waiting_for_retry') AND due_at <= ?)
