-- The id of a step's own task.
CREATE FUNCTION "{schema}".step_id(workflow uuid, step integer) RETURNS uuid LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT (left(workflow::text, 27)
        || lpad(to_hex(('x' || right(workflow::text, 9))::bit(36)::bigint | ((step + 1)::bigint << 17)), 9, '0'))::uuid
$$;
