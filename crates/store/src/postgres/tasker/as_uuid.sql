-- Who did something, if it is told by a uuid.
CREATE FUNCTION "{schema}".as_uuid(actor text) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN actor ~ '^[0-9A-Fa-f]{8}-([0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}$' THEN actor::uuid END
$$;
