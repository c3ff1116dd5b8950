-- When a step that has failed is to be tried again: as long after its last attempt as was asked for, whatever that is; or after its failure, longer
-- each time, up to the limit; or null, if it has not failed.
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
            THEN last_attempted_at + make_interval(secs => backoff_request_seconds)
        WHEN failure_time IS NOT NULL
            -- Beyond any limit long before numbers are.
            THEN failure_time + make_interval(secs => CASE
                WHEN coalesce(attempts, 1) * ln(greatest(p_backoff_multiplier, 0.001)) > 22 THEN p_max_backoff_seconds
                ELSE least(p_backoff_multiplier ^ coalesce(attempts, 1), p_max_backoff_seconds)
            END::double precision)
    END
$$;
