-- The note of a change as an object: itself, if it is one.
CREATE FUNCTION "{schema}".metadata(note text) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF note IS NULL THEN
        RETURN '{}';
    ELSIF starts_with(note, '{') THEN
        RETURN note::jsonb;
    END IF;
    RETURN jsonb_build_object('note', note);
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN jsonb_build_object('note', note);
END $$;
