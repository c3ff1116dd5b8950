-- Versions of definitions never change.
CREATE TABLE definitions (
    seq        bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace  text        NOT NULL COLLATE "C" CHECK (namespace <> ''),
    name       text        NOT NULL COLLATE "C" CHECK (name <> ''),
    version    text        NOT NULL COLLATE "C" CHECK (version <> ''),  -- of one workflow alone if it begins with the character 1
    content    json        NOT NULL,
    steps      bigint      NOT NULL CHECK (steps >= 0),
    -- The same once more, for those who ask in SQL: of each step, in order, its name, its kind, how many steps are on the longest way to
    -- it, how many of its parents it needs, and whether done (or only over); and the numbers of its parents, which are those of all
    -- steps one after the other, from one place to before the next.
    names      text[]      NOT NULL,
    kinds      text[]      NOT NULL,
    levels     integer[]   NOT NULL,
    needed     integer[]   NOT NULL,
    over       boolean[]   NOT NULL,
    places     integer[]   NOT NULL,
    parents    integer[]   NOT NULL,
    created_at timestamptz NOT NULL,
    UNIQUE (namespace, name, version)
);

CREATE FUNCTION definitions_never_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'versions of definitions never change';
END $$;
CREATE TRIGGER definitions_never_change BEFORE UPDATE ON definitions
    FOR EACH ROW EXECUTE FUNCTION definitions_never_change();

-- A workflow: what it follows, and how many of its tasks are where. Whoever changes one of its tasks, other than by claiming it, locks
-- this row first.
CREATE TABLE workflows (
    seq         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,  -- the order of starts
    id          uuid        NOT NULL CONSTRAINT workflows_id UNIQUE,
    namespace   text        NOT NULL COLLATE "C" CHECK (namespace <> ''),
    name        text        NOT NULL COLLATE "C" CHECK (name <> ''),
    version     text        NOT NULL COLLATE "C" CHECK (version <> ''),
    definition  bigint      NOT NULL,
    key         text        COLLATE "C" CHECK (key <> ''),
    priority    integer     NOT NULL,
    parent      uuid,                                   -- the step that it is
    nesting     bigint      NOT NULL CHECK (nesting >= 0),
    origin      uuid,                                   -- the workflow that it repeats
    created_at  timestamptz NOT NULL,
    state       text        NOT NULL COLLATE "C" CHECK (state IN ('pending', 'initializing', 'enqueuing_steps', 'steps_in_process',
        'evaluating_results', 'waiting_for_dependencies', 'waiting_for_retry', 'blocked_by_failures', 'complete', 'error',
        'cancelled', 'resolved_manually')),
    paused      boolean     NOT NULL,
    waiting     bigint      NOT NULL CHECK (waiting >= 0),
    nested      bigint      NOT NULL CHECK (nested >= 0),
    active      bigint      NOT NULL CHECK (active >= 0),
    timed       bigint      NOT NULL CHECK (timed >= 0),
    done        bigint      NOT NULL CHECK (done >= 0),
    skipped     bigint      NOT NULL CHECK (skipped >= 0),
    cancelled   bigint      NOT NULL CHECK (cancelled >= 0),
    failed      bigint      NOT NULL CHECK (failed >= 0),
    owner       text,
    owned_until timestamptz,
    updated_at  timestamptz NOT NULL,
    finished_at timestamptz,
    entries     integer     NOT NULL CHECK (entries > 0),
    retries     bigint      NOT NULL CHECK (retries >= 0),
    rank        bigint      NOT NULL,                   -- its place among workflows
    CHECK ((finished_at IS NOT NULL) = (state IN ('complete', 'error', 'cancelled', 'resolved_manually'))),
    CHECK ((owner IS NULL) = (owned_until IS NULL))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

CREATE UNIQUE INDEX workflows_key ON workflows (namespace, name, key) WHERE key IS NOT NULL;
-- Who is a step.
CREATE INDEX workflows_parent ON workflows (parent, seq) WHERE parent IS NOT NULL;
-- What is not over.
CREATE INDEX workflows_open ON workflows (id) WHERE finished_at IS NULL;
-- Those with steps that can be claimed, or are held, best first.
CREATE INDEX workflows_in_process ON workflows (rank DESC, seq) WHERE state = 'steps_in_process';
-- What retention reads.
CREATE INDEX workflows_finished ON workflows (state, finished_at, seq) WHERE finished_at IS NOT NULL;

-- Apart from workflows, so that a change of counts does not rewrite it.
CREATE TABLE inputs (
    workflow bigint PRIMARY KEY,
    input    json   NOT NULL
);

CREATE TABLE workflow_history (
    workflow bigint      NOT NULL,
    n        integer     NOT NULL CHECK (n > 0),
    state    text        NOT NULL COLLATE "C",
    at       timestamptz NOT NULL,
    actor    text,
    note     text,
    PRIMARY KEY (workflow, n)
);

CREATE FUNCTION workflow_history_is_append_only() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        RAISE EXCEPTION 'history is append-only';
    ELSIF EXISTS (SELECT FROM workflows WHERE seq = OLD.workflow) THEN
        RAISE EXCEPTION 'history is deleted only with its workflow';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER workflow_history_is_append_only BEFORE UPDATE OR DELETE ON workflow_history
    FOR EACH ROW EXECUTE FUNCTION workflow_history_is_append_only();

-- The last id that a task of a workflow may have: tasks are numbered by the last 34 bits.
CREATE FUNCTION last_task(workflow uuid) RETURNS uuid LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT (left(workflow::text, 27) || to_hex(('x' || substr(workflow::text, 28, 1))::bit(4)::integer | 3) || 'ffffffff')::uuid
$$;

-- Kept by every change of a workflow's state, so that counting never scans; in parts, as counts is.
CREATE TABLE workflow_counts (
    namespace text     NOT NULL COLLATE "C",
    name      text     NOT NULL COLLATE "C",
    state     text     NOT NULL COLLATE "C",
    part      smallint NOT NULL,
    workflows bigint   NOT NULL,
    PRIMARY KEY (namespace, name, state, part)
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- What happened to workflows in each minute, in parts. Durations are sums of microseconds.
CREATE TABLE activity (
    minute       timestamptz NOT NULL,
    part         smallint    NOT NULL,
    started      bigint      NOT NULL,
    completed    bigint      NOT NULL,
    failed       bigint      NOT NULL,
    lasted       bigint      NOT NULL,
    steps        bigint      NOT NULL,
    failed_steps bigint      NOT NULL,
    steps_lasted bigint      NOT NULL,
    PRIMARY KEY (minute, part)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
