-- Which item of its step's list a task is for, from 0; null for the step itself.
CREATE FUNCTION "{schema}".item_of(task uuid) RETURNS integer LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT nullif((('x' || right(task::text, 9))::bit(36)::bigint & 131071)::integer, 0) - 1
$$;
