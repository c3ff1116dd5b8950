-- Reads messages that can be seen, those first that could be for longest, and hides them for a while. Never waits for another reader.
CREATE FUNCTION {prefix}tasker.pgmq_read(queue_name text, vt_seconds integer DEFAULT 30, qty integer DEFAULT 1)
RETURNS TABLE (msg_id bigint, read_ct integer, enqueued_at timestamptz, vt timestamptz, message jsonb)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = "{schema}", pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    now constant timestamptz := clock_timestamp();
BEGIN
    PERFORM check_message_queue(queue_name), check_seconds('visibility time-out', vt_seconds);
    IF (qty BETWEEN 1 AND 1000) IS NOT TRUE THEN
        PERFORM refuse('number of messages', qty::text, '1 to 1000');
    END IF;
    RETURN QUERY WITH taken AS (
        UPDATE messages m SET vt = now + vt_seconds * interval '1 second', read_ct = m.read_ct + 1, announced = true
        FROM (
            SELECT v.msg_id, v.vt FROM messages v WHERE v.queue = queue_name AND v.vt <= now
            ORDER BY v.vt, v.msg_id LIMIT qty FOR UPDATE SKIP LOCKED
        ) v WHERE m.msg_id = v.msg_id
        RETURNING m.*, v.vt AS visible_from
    )
    SELECT t.msg_id, t.read_ct, t.enqueued_at, t.vt, t.message FROM taken t ORDER BY t.visible_from, t.msg_id;
END $$;
REVOKE ALL ON FUNCTION {prefix}tasker.pgmq_read FROM PUBLIC;
