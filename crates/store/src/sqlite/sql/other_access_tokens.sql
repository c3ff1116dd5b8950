-- How many there are, and whether one has the name or the id.
SELECT count(*), coalesce(max(name = ?1), 0), coalesce(max(id = ?2 OR previous_id IS ?2), 0) FROM access_tokens
