-- Whoever has last looked at everything is right.
INSERT INTO windlass.floors AS f (namespace, queue, kind, place, seq, walked_at, took)
SELECT u.namespace, u.queue, u.kind, u.place, u.seq, clock_timestamp() - u.ago * interval '1 microsecond', u.took
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[])
    AS u (namespace, queue, kind, place, seq, ago, took)
ORDER BY u.namespace, u.queue, u.kind
ON CONFLICT (namespace, queue, kind) DO UPDATE
SET place = excluded.place, seq = excluded.seq, walked_at = excluded.walked_at, took = excluded.took
WHERE f.walked_at <= excluded.walked_at + interval '100 milliseconds' OR f.walked_at > clock_timestamp()
