SELECT
    coalesce(sum(started), 0), coalesce(sum(completed), 0), coalesce(sum(failed), 0), coalesce(sum(lasted), 0),
    coalesce(sum(steps), 0), coalesce(sum(failed_steps), 0), coalesce(sum(steps_lasted), 0)
FROM activity WHERE minute >= ?1 AND (?2 IS NULL OR namespace = ?2)
