-- How many there are, and whether one has the name or the id.
SELECT count(*), coalesce(bool_or(name = $1), false),
    coalesce(bool_or(id = $2 OR position(' ' || $2 || ':' IN ' ' || previous) > 0), false)
FROM windlass.access_tokens
