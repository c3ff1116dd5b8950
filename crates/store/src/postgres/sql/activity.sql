SELECT
    coalesce(sum(started), 0)::bigint, coalesce(sum(completed), 0)::bigint, coalesce(sum(failed), 0)::bigint,
    coalesce(sum(lasted), 0)::bigint, coalesce(sum(steps), 0)::bigint, coalesce(sum(failed_steps), 0)::bigint,
    coalesce(sum(steps_lasted), 0)::bigint
FROM windlass.activity WHERE minute >= $1 AND ($2::text IS NULL OR namespace = $2)
