-- The workflow that a task with this id is part of: all but the last 34 bits.
CREATE FUNCTION "{schema}".workflow_of(task uuid) RETURNS uuid LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT (left(task::text, 27) || to_hex(('x' || substr(task::text, 28, 1))::bit(4)::integer & 12) || '00000000')::uuid
$$;
