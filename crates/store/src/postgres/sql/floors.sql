-- Moments that are yet to come are of a clock that was put back.
SELECT f.namespace, f.queue, f.kind, f.place, f.seq,
    (extract(epoch FROM clock_timestamp() - f.walked_at) * 1000000)::bigint, f.took
FROM windlass.floors f WHERE f.walked_at <= clock_timestamp() ORDER BY f.walked_at DESC LIMIT 1000
