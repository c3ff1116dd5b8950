-- The number of a task's step in the definition, from 0: the upper half of the last 34 bits, less one.
CREATE FUNCTION "{schema}".step_of(task uuid) RETURNS integer LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT ((('x' || right(task::text, 9))::bit(36)::bigint >> 17) & 131071)::integer - 1
$$;
