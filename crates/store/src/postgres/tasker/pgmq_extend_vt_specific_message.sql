-- Hides a message for longer than until now; whether it was there. What could be seen already is hidden from now on.
CREATE FUNCTION {prefix}tasker.pgmq_extend_vt_specific_message(
    queue_name text, target_msg_id bigint, additional_vt_seconds integer DEFAULT 30
) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path = "{schema}", pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    PERFORM check_message_queue(queue_name), check_seconds('visibility time-out', additional_vt_seconds);
    UPDATE messages m SET vt = greatest(m.vt, clock_timestamp()) + additional_vt_seconds * interval '1 second'
    WHERE m.msg_id = target_msg_id AND m.queue = queue_name;
    RETURN FOUND;
END $$;
REVOKE ALL ON FUNCTION {prefix}tasker.pgmq_extend_vt_specific_message FROM PUBLIC;
