-- How many there are, and whether one has the name or the id.
SELECT count(*), coalesce(bool_or(name = $1), false),
    coalesce(bool_or(id = $2 OR previous_id IS NOT DISTINCT FROM $2), false)
FROM windlass.access_tokens
