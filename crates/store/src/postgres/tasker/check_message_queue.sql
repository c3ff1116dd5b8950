-- Refuses a name that cannot be that of a queue, and one that no queue has.
CREATE FUNCTION check_message_queue(queue text, must_exist boolean DEFAULT true) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF (queue COLLATE "C" ~ '^[A-Za-z0-9_]{1,47}$') IS NOT TRUE THEN
        PERFORM refuse('name of a queue', quoted(queue), '1 to 47 characters from A-Z a-z 0-9 _');
    ELSIF must_exist AND NOT EXISTS (SELECT FROM message_queues q WHERE q.name = queue) THEN
        RAISE EXCEPTION 'there is no queue %; make it with ensure_task_queue', quoted(queue) USING ERRCODE = '42704';
    END IF;
END $$;
