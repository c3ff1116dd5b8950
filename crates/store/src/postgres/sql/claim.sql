-- Claims the best of what can be claimed, for several workers that ask for the same: the first is given the best, as many as it wants, and so on. Each queue
-- and kind is its own range of the index, so nothing that the workers cannot run is ever read, and what another is claiming just now is passed over. A range
-- may begin behind a floor ($7 and $8).
WITH moment AS MATERIALIZED (
    SELECT coalesce($6, clock_timestamp()) AS now
), hands AS MATERIALIZED (
    -- For every task that may be taken, in order, which of the workers is to have it. Those that are not alive have no hands.
    SELECT ARRAY(
        SELECT c.n::integer FROM moment m, unnest($1::text[], $5::bigint[]) WITH ORDINALITY AS c (worker, most, n)
        CROSS JOIN LATERAL generate_series(1, c.most)
        WHERE EXISTS (SELECT FROM windlass.workers w WHERE w.id = c.worker AND {alive_until} > m.now)
        ORDER BY c.n
    ) AS whose
), ranges AS MATERIALIZED (
    SELECT DISTINCT q.queue, k.kind,
        coalesce(($7::bigint[])[(q.n - 1) * cardinality($4::text[]) + k.n], {lowest}) AS place,
        coalesce(($8::bigint[])[(q.n - 1) * cardinality($4::text[]) + k.n], {lowest}) AS seq
    FROM unnest($3::text[]) WITH ORDINALITY AS q (queue, n), unnest($4::text[]) WITH ORDINALITY AS k (kind, n)
    WHERE NOT EXISTS (SELECT FROM windlass.paused_queues p WHERE p.namespace = $2 AND p.queue = q.queue)
), picked AS MATERIALIZED (
    SELECT p.at, row_number() OVER (ORDER BY ~p.rank, p.seq) AS n FROM (
    {picked}
    ) p
), taken AS (
    UPDATE windlass.live l SET
        state = 'claimed', attempt = l.attempt + 1, lease = l.lease + 1, worker = ($1::text[])[h.whose[p.n]],
        claimed_at = greatest(m.now, l.updated_at), updated_at = greatest(m.now, l.updated_at), entries = l.entries + 1
    FROM moment m, hands h, picked p WHERE l.ctid = p.at
    RETURNING l.*, l.ctid AS at
), told AS (
    INSERT INTO windlass.history_rows (task, n, state, at, reason, actor)
    SELECT seq, entries, 'claimed', updated_at, 'claimed', worker FROM taken WHERE NOT plain
), counted AS (
    INSERT INTO windlass.counts AS c (namespace, queue, kind, is_step, state, part, tasks)
    SELECT $2, t.queue, t.kind, t.is_step, d.state, pg_backend_pid() % {parts}, d.sign * t.tasks
    FROM (SELECT queue, kind, is_step, count(*) AS tasks FROM taken GROUP BY queue, kind, is_step) t,
        (VALUES ('claimed', 1), ('pending', -1)) AS d (state, sign)
    ON CONFLICT (namespace, queue, kind, is_step, state, part) DO UPDATE SET tasks = c.tasks + excluded.tasks
)
SELECT {spec}, {live}, l.at::text, l.plain, t.actor, l.ready_at, t.payload::text, CASE WHEN l.lease > 1 THEN (
    SELECT n.details::text FROM windlass.notes n
    WHERE n.task = l.seq AND n.details IS NOT NULL ORDER BY n.lease DESC LIMIT 1) END
FROM taken l CROSS JOIN LATERAL (SELECT * FROM windlass.tasks t WHERE t.seq = l.seq OFFSET 0) t
ORDER BY l.rank DESC, l.seq
