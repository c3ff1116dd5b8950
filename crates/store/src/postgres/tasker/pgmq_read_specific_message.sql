-- Reads one message, if it can be seen, and hides it for a while. No row if it is taken, or was deleted; a reader that is just taking it is
-- not waited for.
CREATE FUNCTION {prefix}tasker.pgmq_read_specific_message(queue_name text, target_msg_id bigint, vt_seconds integer DEFAULT 30)
RETURNS TABLE (msg_id bigint, read_ct integer, enqueued_at timestamptz, vt timestamptz, message jsonb)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = "{schema}", pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    now constant timestamptz := clock_timestamp();
BEGIN
    PERFORM check_message_queue(queue_name), check_seconds('visibility time-out', vt_seconds);
    RETURN QUERY UPDATE messages m SET vt = now + vt_seconds * interval '1 second', read_ct = m.read_ct + 1, announced = true
    WHERE m.msg_id = (
        SELECT v.msg_id FROM messages v WHERE v.msg_id = target_msg_id AND v.queue = queue_name AND v.vt <= now FOR UPDATE SKIP LOCKED)
    RETURNING m.msg_id, m.read_ct, m.enqueued_at, m.vt, m.message;
END $$;
REVOKE ALL ON FUNCTION {prefix}tasker.pgmq_read_specific_message FROM PUBLIC;
