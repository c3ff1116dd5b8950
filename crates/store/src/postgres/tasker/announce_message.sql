-- Tells those who listen that a message can be read, on the channel of its namespace and on the one of all. A notification has room for
-- less than 8,000 bytes: what does not fit is left out whole, never cut.
CREATE FUNCTION announce_message(m messages) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    namespace constant text := {prefix}tasker.extract_queue_namespace(m.queue);
    event     text;
BEGIN
    event := json_build_object('event_type', 'message_ready', 'msg_id', m.msg_id, 'queue_name', m.queue, 'namespace', namespace,
        'ready_at', m.vt, 'delay_seconds', m.delay, 'message', m.message);
    IF length(m.message::text) >= 7000 OR octet_length(event) >= 8000 THEN
        event := json_build_object('event_type', 'message_ready', 'msg_id', m.msg_id, 'queue_name', m.queue, 'namespace', namespace,
            'ready_at', m.vt, 'delay_seconds', m.delay, 'payload_omitted', true);
    END IF;
    PERFORM pg_notify('pgmq_message_ready.' || namespace, event);
    PERFORM pg_notify('pgmq_message_ready', event);
END $$;
