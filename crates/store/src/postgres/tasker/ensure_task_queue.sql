-- Makes a queue of messages, if it is not there.
CREATE FUNCTION {prefix}tasker.ensure_task_queue(queue_name varchar) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path = "{schema}", pg_temp
AS $$
BEGIN
    PERFORM check_message_queue(queue_name, false);
    INSERT INTO message_queues VALUES (queue_name, clock_timestamp()) ON CONFLICT DO NOTHING;
    RETURN true;
END $$;
REVOKE ALL ON FUNCTION {prefix}tasker.ensure_task_queue FROM PUBLIC;
