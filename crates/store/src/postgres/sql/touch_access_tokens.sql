-- Never back, and not one of the same name that was made later. Locked by name, so that servers do not wait for each other in a circle.
WITH used AS (SELECT * FROM unnest($1::text[], $2::timestamptz[]) AS u (name, at)),
locked AS MATERIALIZED (
    SELECT t.name, u.at FROM windlass.access_tokens t JOIN used u ON t.name = u.name
    WHERE t.created_at <= u.at AND (t.last_used_at IS NULL OR t.last_used_at < u.at)
    ORDER BY t.name FOR UPDATE OF t)
UPDATE windlass.access_tokens t SET last_used_at = greatest(t.last_used_at, l.at) FROM locked l WHERE t.name = l.name
