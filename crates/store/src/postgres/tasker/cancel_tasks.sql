-- Cancels what has not ended of a workflow, whose row is locked: no task of it comes or ends meanwhile, but one may be claimed. Says how
-- many these were, whether one was taken from a worker, and whether others in their lanes may go on now.
CREATE FUNCTION cancel_tasks(
    workflow uuid, who text, why text, now timestamptz, OUT many bigint, OUT revoked boolean, OUT opened boolean
) LANGUAGE plpgsql AS $$
DECLARE
    seqs       bigint[];
    namespaces text[];
    lanes      text[];
BEGIN
    -- Everyone who changes the line of a lane takes its lock first, in one order.
    PERFORM pg_advisory_xact_lock(lock) FROM (
        SELECT DISTINCT hashtextextended(t.namespace || ' ' || t.lane, {salt}) AS lock
        FROM tasks t JOIN live l ON l.seq = t.seq
        WHERE t.id >= workflow AND t.id <= last_task(workflow) AND t.is_step AND t.lane IS NOT NULL ORDER BY lock OFFSET 0
    ) locks;
    SELECT coalesce(array_agg(s.seq), '{}'), count(*), coalesce(bool_or(s.worker IS NOT NULL), false) INTO seqs, many, revoked FROM (
        SELECT l.seq, l.worker FROM tasks t JOIN live l ON l.seq = t.seq
        WHERE t.id >= workflow AND t.id <= last_task(workflow) AND t.is_step ORDER BY l.seq FOR UPDATE OF l
    ) s;
    SELECT coalesce(array_agg(l.namespace), '{}'), coalesce(array_agg(l.lane), '{}') INTO namespaces, lanes FROM live l
    WHERE l.seq = ANY (seqs) AND l.lane IS NOT NULL AND (l.slot OR l.state = 'pending');
    -- What has been told by the columns alone is written down.
    INSERT INTO history_rows SELECT h.* FROM live l
    CROSS JOIN LATERAL (SELECT h.task, h.n, h.state, h.at, h.reason, h.actor, h.note FROM history h WHERE h.task = l.seq OFFSET 0) h
    WHERE l.seq = ANY (seqs) AND l.plain;
    INSERT INTO history_rows (task, n, state, at, reason, actor, note)
    SELECT l.seq, l.entries + 1, 'cancelled', greatest(now, l.updated_at), 'cancelled', who, why FROM live l WHERE l.seq = ANY (seqs);
    PERFORM count_more(ROW (l.namespace, l.queue, l.kind, true, l.state, 0, -count(*))::counts)
    FROM live l WHERE l.seq = ANY (seqs) GROUP BY l.namespace, l.queue, l.kind, l.state;
    PERFORM count_more(ROW (l.namespace, l.queue, l.kind, true, 'cancelled', 0, count(*))::counts)
    FROM live l WHERE l.seq = ANY (seqs) GROUP BY l.namespace, l.queue, l.kind;
    WITH gone AS (DELETE FROM live l WHERE l.seq = ANY (seqs) RETURNING l.*)
    INSERT INTO ended (
        seq, state, attempt, lease, worker, claimed_at, started_at, finished_at, updated_at, ready_at, rank, entries, plain, is_step)
    SELECT seq, 'cancelled', attempt, lease, worker, claimed_at, started_at, greatest(now, updated_at), greatest(now, updated_at),
        ready_at, rank, entries + 1, false, true
    FROM gone;
    opened := lanes <> '{}' AND fill_lanes(namespaces, lanes);
END $$;
