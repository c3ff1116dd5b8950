-- How many there are, and whether one has the name or the id.
SELECT count(*), coalesce(max(name = ?1), 0), coalesce(max(id = ?2 OR instr(' ' || previous, ' ' || ?2 || ':') > 0), 0)
FROM access_tokens
