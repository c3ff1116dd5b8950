-- The feed of changes. Nothing is written here unless somebody listens. Who writes the lower number may commit later, so readers are
-- given only what is below every transaction that is still open, in the order of transactions: what they were given has nothing
-- before it any more that they were not.
CREATE TABLE events (
    xid       xid8        NOT NULL DEFAULT pg_current_xact_id(),
    seq       bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    at        timestamptz NOT NULL,
    namespace text        NOT NULL COLLATE "C",
    what      text        NOT NULL COLLATE "C" CHECK (what IN ('task', 'step', 'workflow')),
    subject   uuid        NOT NULL,
    queue     text        COLLATE "C" CHECK ((queue IS NULL) = (what = 'workflow')),
    name      text        NOT NULL COLLATE "C",      -- the kind of a task, the name of a workflow
    state     text        NOT NULL COLLATE "C",
    attempt   bigint      CHECK ((attempt IS NULL) = (what = 'workflow')),
    PRIMARY KEY (xid, seq)
);

CREATE TABLE listening (
    one   boolean     PRIMARY KEY CHECK (one),
    until timestamptz NOT NULL,                      -- changes are told until then
    xid   xid8        NOT NULL,                      -- the last event that is not known, or not any more
    seq   bigint      NOT NULL,
    ready boolean     NOT NULL                       -- whether nobody is at work any more who began before changes were told
) WITH (fillfactor = 50);
INSERT INTO listening VALUES (true, 'epoch', '0', 0, false);

-- Whether somebody may be listening, 2, or nobody is, 1. A sequence, because reading it costs a tenth of reading a row, so that nobody pays for a
-- feed that is off, and because everybody sees at once what it says, whatever snapshot they look at.
CREATE SEQUENCE listened;
SELECT setval('listened', 1);

CREATE FUNCTION switch_feed(is_on boolean) RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT setval('"{schema}".listened', CASE WHEN is_on THEN 2 ELSE 1 END)
$$;

-- Tells what a statement has changed, if somebody listens. That is so for a minute longer than is promised: who keeps the feed on may take
-- that long to commit. A moment that is ahead of the clock, because the clock was set back, is taken for the present. A transaction
-- that looks at an old snapshot cannot know how long somebody will be listening by now, and tells in any case.
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM "{schema}".listening l
        WHERE l.one AND l.until + interval '1 minute' > least((SELECT f.updated_at FROM fresh f LIMIT 1), clock_timestamp())
    ) AND current_setting('transaction_isolation') = 'read committed' THEN
        RETURN NULL;
    END IF;
    IF TG_TABLE_NAME = 'workflows' THEN
        IF TG_OP = 'INSERT' THEN
            INSERT INTO "{schema}".events (at, namespace, what, subject, name, state)
            SELECT f.updated_at, f.namespace, 'workflow', f.id, f.name, f.state FROM fresh f;
        ELSE
            INSERT INTO "{schema}".events (at, namespace, what, subject, name, state)
            SELECT f.updated_at, f.namespace, 'workflow', f.id, f.name, f.state
            FROM fresh f JOIN stale s ON s.seq = f.seq AND s.state <> f.state;
        END IF;
    ELSIF TG_OP = 'INSERT' THEN
        INSERT INTO "{schema}".events (at, namespace, what, subject, queue, name, state, attempt)
        SELECT f.updated_at, t.namespace, CASE WHEN t.is_step THEN 'step' ELSE 'task' END, t.id, t.queue, t.kind, f.state, f.attempt
        FROM fresh f CROSS JOIN LATERAL (SELECT * FROM "{schema}".tasks t WHERE t.seq = f.seq OFFSET 0) t;
    ELSE
        INSERT INTO "{schema}".events (at, namespace, what, subject, queue, name, state, attempt)
        SELECT f.updated_at, t.namespace, CASE WHEN t.is_step THEN 'step' ELSE 'task' END, t.id, t.queue, t.kind, f.state, f.attempt
        FROM fresh f JOIN stale s ON s.seq = f.seq AND (s.state <> f.state OR s.lease <> f.lease)
        CROSS JOIN LATERAL (SELECT * FROM "{schema}".tasks t WHERE t.seq = f.seq OFFSET 0) t;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER tell_new AFTER INSERT ON live REFERENCING NEW TABLE AS fresh
    FOR EACH STATEMENT WHEN (pg_sequence_last_value('listened') IS DISTINCT FROM 1) EXECUTE FUNCTION tell();
CREATE TRIGGER tell_changed AFTER UPDATE ON live REFERENCING OLD TABLE AS stale NEW TABLE AS fresh
    FOR EACH STATEMENT WHEN (pg_sequence_last_value('listened') IS DISTINCT FROM 1) EXECUTE FUNCTION tell();
CREATE TRIGGER tell_new AFTER INSERT ON ended REFERENCING NEW TABLE AS fresh
    FOR EACH STATEMENT WHEN (pg_sequence_last_value('listened') IS DISTINCT FROM 1) EXECUTE FUNCTION tell();
CREATE TRIGGER tell_changed AFTER UPDATE ON ended REFERENCING OLD TABLE AS stale NEW TABLE AS fresh
    FOR EACH STATEMENT WHEN (pg_sequence_last_value('listened') IS DISTINCT FROM 1) EXECUTE FUNCTION tell();
CREATE TRIGGER tell_new AFTER INSERT ON workflows REFERENCING NEW TABLE AS fresh
    FOR EACH STATEMENT WHEN (pg_sequence_last_value('listened') IS DISTINCT FROM 1) EXECUTE FUNCTION tell();
CREATE TRIGGER tell_changed AFTER UPDATE ON workflows REFERENCING OLD TABLE AS stale NEW TABLE AS fresh
    FOR EACH STATEMENT WHEN (pg_sequence_last_value('listened') IS DISTINCT FROM 1) EXECUTE FUNCTION tell();
