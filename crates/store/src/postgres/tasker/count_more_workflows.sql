-- Adds to the number of workflows of one sort, as count_more does: in a part that no other transaction holds.
CREATE FUNCTION count_more_workflows(c workflow_counts) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE workflow_counts SET workflows = workflow_counts.workflows + c.workflows
    WHERE (namespace, name, state) = (c.namespace, c.name, c.state) AND part = (
        SELECT part FROM workflow_counts WHERE (namespace, name, state) = (c.namespace, c.name, c.state) AND part >= 64
        ORDER BY part LIMIT 1 FOR UPDATE SKIP LOCKED);
    IF NOT FOUND THEN
        INSERT INTO workflow_counts AS old SELECT c.namespace, c.name, c.state, free.part, c.workflows
        FROM (SELECT 64 + (pg_backend_pid() + try * 7919) % 32000 AS part FROM generate_series(0, 10000) try) free
        WHERE NOT EXISTS (
            SELECT FROM workflow_counts w
            WHERE (w.namespace, w.name, w.state) = (c.namespace, c.name, c.state) AND w.part = free.part)
        LIMIT 1
        ON CONFLICT (namespace, name, state, part) DO UPDATE SET workflows = old.workflows + excluded.workflows;
    END IF;
END $$;
