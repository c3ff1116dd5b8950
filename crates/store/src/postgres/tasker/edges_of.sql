-- The edges of a definition: the numbers of each step and of one that it comes after.
CREATE FUNCTION "{schema}".edges_of(definition bigint) RETURNS TABLE (step integer, parent integer)
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    places  integer[];
    parents integer[];
BEGIN
    SELECT d.places, d.parents INTO places, parents FROM "{schema}".definitions d WHERE d.seq = definition;
    RETURN QUERY SELECT s, parents[e]
    FROM generate_series(0, cardinality(places) - 2) s CROSS JOIN LATERAL generate_series(places[s + 1] + 1, places[s + 2]) e;
END $$;
