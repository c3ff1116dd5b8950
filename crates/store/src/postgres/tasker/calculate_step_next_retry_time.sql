-- When a step that has failed is to be tried again: as long after its last attempt as was asked for, whatever that is; or after its failure, longer
-- each time, up to the limit; or null, if it has not failed. No number below 0 is less than 0.
CREATE FUNCTION {prefix}tasker.calculate_step_next_retry_time(
    backoff_request_seconds integer,
    last_attempted_at       timestamptz,
    failure_time            timestamptz,
    attempts                integer,
    p_max_backoff_seconds   integer DEFAULT 60,
    p_backoff_multiplier    numeric DEFAULT 2.0
) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN backoff_request_seconds IS NOT NULL AND last_attempted_at IS NOT NULL
            THEN last_attempted_at + make_interval(secs => greatest(backoff_request_seconds, 0))
        WHEN failure_time IS NOT NULL THEN failure_time + make_interval(secs => (
            -- Beyond any limit long before numbers are.
            SELECT CASE WHEN g.n * ln(greatest(g.base, 0.001)) > 22 THEN g.most ELSE least(g.base ^ g.n, g.most) END
            FROM (VALUES (
                greatest(coalesce(attempts, 1), 0),
                greatest(coalesce(p_backoff_multiplier, 2), 0),
                greatest(coalesce(p_max_backoff_seconds, 60), 0)
            )) AS g (n, base, most)
        )::double precision)
    END
$$;
