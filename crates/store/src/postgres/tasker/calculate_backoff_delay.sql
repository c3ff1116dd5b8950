-- Seconds to wait after so many attempts: twice as long each time, and never longer than a minute. Nothing before the first.
CREATE FUNCTION {prefix}tasker.calculate_backoff_delay(attempts integer, base_delay numeric DEFAULT 1) RETURNS numeric
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN coalesce(attempts, 0) <= 0 THEN 0
        ELSE trim_scale(least(greatest(coalesce(base_delay, 1), 0) * 2::numeric ^ least(attempts, 64), 60)) END
$$;
