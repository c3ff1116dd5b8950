-- How many of each range are among the best of all is looked up first, so that no more than these are locked.
    SELECT l.at, l.rank, l.seq FROM (
        SELECT r.queue, r.kind, r.place, r.seq, count(*) AS wanted FROM (
            SELECT r.queue, r.kind, r.place, r.seq FROM ranges r CROSS JOIN LATERAL (
                SELECT l.rank, l.seq FROM windlass.live l
                WHERE l.namespace = $2 AND l.queue = r.queue AND l.kind = r.kind
                    AND l.state = 'pending' AND (l.lane IS NULL OR l.slot) AND (~l.rank, l.seq) > (r.place, r.seq)
                ORDER BY ~l.rank, l.seq LIMIT (SELECT cardinality(whose) FROM hands)
            ) l ORDER BY ~l.rank, l.seq LIMIT (SELECT cardinality(whose) FROM hands)
        ) r GROUP BY r.queue, r.kind, r.place, r.seq
    ) r CROSS JOIN LATERAL (
        SELECT l.ctid AS at, l.rank, l.seq FROM windlass.live l
        WHERE l.namespace = $2 AND l.queue = r.queue AND l.kind = r.kind
            AND l.state = 'pending' AND (l.lane IS NULL OR l.slot) AND (~l.rank, l.seq) > (r.place, r.seq)
        ORDER BY ~l.rank, l.seq LIMIT r.wanted FOR UPDATE SKIP LOCKED
    ) l
