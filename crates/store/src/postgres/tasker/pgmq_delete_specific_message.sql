-- Deletes a message; whether it was there.
CREATE FUNCTION {prefix}tasker.pgmq_delete_specific_message(queue_name text, target_msg_id bigint)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path = "{schema}", pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    PERFORM check_message_queue(queue_name);
    DELETE FROM messages m WHERE m.msg_id = target_msg_id AND m.queue = queue_name;
    RETURN FOUND;
END $$;
REVOKE ALL ON FUNCTION {prefix}tasker.pgmq_delete_specific_message FROM PUBLIC;
