-- Writes that a workflow, whose row is locked, goes to its next state: the row with its counts as they are given, the history, and what
-- is counted. Nothing is checked.
CREATE FUNCTION move_workflow(w workflows, next text, who text, said text, now timestamptz) RETURNS workflows LANGUAGE plpgsql AS $$
DECLARE
    was constant text := w.state;
BEGIN
    w.state := next;
    w.entries := w.entries + 1;
    w.updated_at := greatest(now, w.updated_at);
    w.finished_at := CASE WHEN is_final_state(next) THEN w.updated_at END;
    IF NOT is_active_state(next) THEN
        w.owner := NULL;
        w.owned_until := NULL;
    END IF;
    UPDATE workflows SET state = w.state, waiting = w.waiting, nested = w.nested, active = w.active, timed = w.timed,
        cancelled = w.cancelled, owner = w.owner, owned_until = w.owned_until, updated_at = w.updated_at,
        finished_at = w.finished_at, entries = w.entries
    WHERE seq = w.seq;
    INSERT INTO workflow_history VALUES (w.seq, w.entries, next, w.updated_at, who, said);
    PERFORM count_more_workflows(ROW (w.namespace, w.name, was, 0, -1)::workflow_counts),
        count_more_workflows(ROW (w.namespace, w.name, next, 0, 1)::workflow_counts);
    IF next IN ('complete', 'error') THEN
        PERFORM note_end(w);
    END IF;
    RETURN w;
END $$;
