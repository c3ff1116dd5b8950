SELECT l.ctid AS at, l.rank, l.seq FROM windlass.live l
    WHERE l.namespace = $2 AND l.queue = ($3::text[])[1] AND l.kind = ($4::text[])[1]
        AND l.state = 'pending' AND (l.lane IS NULL OR l.slot) AND EXISTS (SELECT FROM ranges)
        AND (~l.rank, l.seq) > (coalesce(($7::bigint[])[1], {lowest}), coalesce(($8::bigint[])[1], {lowest}))
    ORDER BY ~l.rank, l.seq LIMIT (SELECT cardinality(whose) FROM hands) FOR UPDATE SKIP LOCKED
