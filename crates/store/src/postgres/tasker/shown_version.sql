-- The version of a definition as it is shown: none, if it belongs to one workflow alone.
CREATE FUNCTION "{schema}".shown_version(version text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN starts_with(version, chr(1)) THEN '' ELSE version END
$$;
