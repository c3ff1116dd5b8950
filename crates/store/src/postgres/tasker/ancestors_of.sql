-- The numbers of the steps that a step of a definition comes after, and the fewest edges to each; nearest first. Each edge is looked at once.
CREATE FUNCTION "{schema}".ancestors_of(definition bigint, step integer) RETURNS TABLE (ancestor integer, distance integer)
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
#variable_conflict use_column
DECLARE
    places  integer[];
    parents integer[];
    seen    boolean[];
    reached   integer[] := '{}';
    far     integer[] := '{}';
    many    integer := 0;
    next    integer := 0;
    at      integer := step;
    away    integer := 1;
    parent  integer;
BEGIN
    SELECT d.places, d.parents, array_fill(false, ARRAY[d.steps::integer]) INTO places, parents, seen
    FROM "{schema}".definitions d WHERE d.seq = definition AND d.steps > step;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    LOOP
        FOR edge IN places[at + 1] + 1 .. places[at + 2] LOOP
            parent := parents[edge];
            IF NOT seen[parent + 1] THEN
                seen[parent + 1] := true;
                many := many + 1;
                reached[many] := parent;
                far[many] := away;
            END IF;
        END LOOP;
        next := next + 1;
        EXIT WHEN next > many;
        at := reached[next];
        away := far[next] + 1;
    END LOOP;
    RETURN QUERY SELECT * FROM unnest(reached, far);
END $$;
