-- Refuses a length of time that is none.
CREATE FUNCTION check_seconds(field text, seconds integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF (seconds >= 0) IS NOT TRUE THEN
        PERFORM refuse(field, seconds::text, '0 or more seconds');
    END IF;
END $$;
