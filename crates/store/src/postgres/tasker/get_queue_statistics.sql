-- How many messages a queue has, whether they can be seen or not, and how old its oldest and newest are.
CREATE FUNCTION {prefix}tasker.get_queue_statistics(p_queue_name varchar)
RETURNS TABLE (queue_name varchar, queue_length bigint, oldest_msg_age_seconds integer, newest_msg_age_seconds integer)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = "{schema}", pg_temp SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    now constant timestamptz := clock_timestamp();
BEGIN
    PERFORM check_message_queue(p_queue_name);
    RETURN QUERY SELECT p_queue_name, count(*), floor(extract(epoch FROM now - min(m.enqueued_at)))::integer,
        floor(extract(epoch FROM now - max(m.enqueued_at)))::integer
    FROM messages m WHERE m.queue = p_queue_name;
END $$;
REVOKE ALL ON FUNCTION {prefix}tasker.get_queue_statistics FROM PUBLIC;
