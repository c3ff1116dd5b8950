-- What happened to workflows in each minute is kept by namespace. Rows from before this migration have no namespace: they are kept under
-- '', which is no namespace's name, and count only in the sums of all.
ALTER TABLE activity
    ADD COLUMN namespace text NOT NULL COLLATE "C" DEFAULT '',
    DROP CONSTRAINT activity_pkey,
    ADD PRIMARY KEY (minute, namespace, part);
ALTER TABLE activity ALTER COLUMN namespace DROP DEFAULT;

-- Counts a workflow that has just been completed or given up among what happened in its minute and namespace, in a part that no other
-- transaction holds.
CREATE OR REPLACE FUNCTION note_end(w workflows) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    now     constant timestamptz := date_bin('1 minute', w.finished_at, 'epoch');
    is_done constant bigint := (w.state = 'complete')::integer;
    micros  constant bigint := is_done * greatest(extract(epoch FROM w.finished_at - w.created_at) * 1000000, 0);
BEGIN
    UPDATE activity SET completed = completed + is_done, failed = failed + 1 - is_done, lasted = lasted + micros
    WHERE minute = now AND namespace = w.namespace AND part = (
        SELECT part FROM activity WHERE minute = now AND namespace = w.namespace AND part >= 64
        ORDER BY part LIMIT 1 FOR UPDATE SKIP LOCKED);
    IF NOT FOUND THEN
        INSERT INTO activity AS old (minute, namespace, part, started, completed, failed, lasted, steps, failed_steps, steps_lasted)
        SELECT now, w.namespace, free.part, 0, is_done, 1 - is_done, micros, 0, 0, 0
        FROM (SELECT 64 + (pg_backend_pid() + try * 7919) % 32000 AS part FROM generate_series(0, 10000) try) free
        WHERE NOT EXISTS (SELECT FROM activity a WHERE a.minute = now AND a.namespace = w.namespace AND a.part = free.part)
        LIMIT 1
        ON CONFLICT (minute, namespace, part) DO UPDATE SET completed = old.completed + excluded.completed,
            failed = old.failed + excluded.failed, lasted = old.lasted + excluded.lasted;
    END IF;
END $$;
