-- Announces delayed messages whose time has come, at most 1,000, each once, whoever calls. Says how many these were, and in how many
-- seconds it is worth calling again, if it is.
CREATE FUNCTION announce_messages(OUT announced bigint, OUT next_in double precision) LANGUAGE plpgsql SECURITY DEFINER
SET search_path = "{schema}", pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    now  constant timestamptz := clock_timestamp();
    most constant integer := 1000;
    m    messages;
    next timestamptz;
BEGIN
    announced := 0;
    FOR m IN
        UPDATE messages SET announced = true WHERE msg_id = ANY (ARRAY(
            SELECT msg_id FROM messages WHERE NOT announced AND vt <= now ORDER BY vt, msg_id LIMIT most FOR UPDATE SKIP LOCKED))
        RETURNING *
    LOOP
        PERFORM announce_message(m);
        announced := announced + 1;
    END LOOP;
    SELECT vt INTO next FROM messages WHERE NOT announced ORDER BY vt, msg_id LIMIT 1;
    next_in := CASE
        WHEN next > now THEN extract(epoch FROM next - now)
        WHEN announced = most THEN 0
        -- Somebody else is at it, and may not come to an end.
        WHEN next IS NOT NULL THEN 1
    END;
END $$;
REVOKE ALL ON FUNCTION announce_messages FROM PUBLIC;
