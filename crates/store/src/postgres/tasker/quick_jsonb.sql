-- As as_jsonb, but most of what is short needs nobody to stand by in case it is refused: it has no escaped character and no exponent.
CREATE FUNCTION "{schema}".quick_jsonb(value json) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN octet_length(value::text) < 1000 AND value::text !~ '\\u|[0-9][eE]' THEN value::jsonb ELSE "{schema}".as_jsonb(value) END
$$;
