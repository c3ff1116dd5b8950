-- The uuid of what only has a name: the first 16 bytes of the SHA-256 of that in UTF-8. Of a namespace that is NAMESPACE, of a
-- definition NAMESPACE/NAME/VERSION with the version as it is shown, of a step of one NAMESPACE/NAME/VERSION/STEP.
CREATE FUNCTION "{schema}".named_id(VARIADIC names text[]) RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT encode(substring(sha256(convert_to(array_to_string(names, '/'), 'UTF8')) FROM 1 FOR 16), 'hex')::uuid
$$;
