-- Sends a message, and with the same commit the news of it. A delayed one is announced when its time has come: programs that wait for
-- that are told of it.
CREATE FUNCTION {prefix}tasker.pgmq_send_with_notify(queue_name text, message jsonb, delay_seconds integer DEFAULT 0)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
SET search_path = "{schema}", pg_temp
AS $$
DECLARE
    now constant timestamptz := clock_timestamp();
    m   messages;
BEGIN
    PERFORM check_message_queue(queue_name), check_seconds('delay', delay_seconds);
    IF message IS NULL THEN
        PERFORM refuse('message', NULL, 'a value of JSON, which may be null');
    END IF;
    INSERT INTO messages (queue, enqueued_at, delay, vt, announced, message)
    VALUES (queue_name, now, delay_seconds, now + delay_seconds * interval '1 second', delay_seconds = 0, message)
    RETURNING * INTO m;
    IF m.announced THEN
        PERFORM announce_message(m);
    ELSE
        PERFORM pg_notify('{schema}', ' m');
    END IF;
    RETURN m.msg_id;
END $$;
REVOKE ALL ON FUNCTION {prefix}tasker.pgmq_send_with_notify FROM PUBLIC;
