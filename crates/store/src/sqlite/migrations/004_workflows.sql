CREATE TABLE definitions (
    seq        INTEGER PRIMARY KEY,
    namespace  TEXT    NOT NULL CHECK (namespace <> ''),
    name       TEXT    NOT NULL CHECK (name <> ''),
    version    TEXT    NOT NULL CHECK (version <> ''),  -- of one workflow alone if it begins with the character 1
    content    TEXT    NOT NULL,                        -- JSON
    steps      INTEGER NOT NULL CHECK (steps >= 0),
    created_at INTEGER NOT NULL,
    UNIQUE (namespace, name, version)
) STRICT;

CREATE TRIGGER definitions_are_never_altered BEFORE UPDATE ON definitions
BEGIN SELECT raise(ABORT, 'versions of definitions never change'); END;

CREATE TABLE workflows (
    seq         INTEGER PRIMARY KEY,  -- the order of starts; never used again
    id          BLOB    NOT NULL UNIQUE CHECK (length(id) = 16),
    namespace   TEXT    NOT NULL CHECK (namespace <> ''),
    name        TEXT    NOT NULL CHECK (name <> ''),
    version     TEXT    NOT NULL CHECK (version <> ''),
    definition  INTEGER NOT NULL REFERENCES definitions (seq),
    key         TEXT    CHECK (key <> ''),
    priority    INTEGER NOT NULL,
    parent      BLOB    CHECK (length(parent) = 16),    -- the step that it is
    nesting     INTEGER NOT NULL CHECK (nesting >= 0),
    origin      BLOB    CHECK (length(origin) = 16),    -- the workflow that it repeats
    created_at  INTEGER NOT NULL,
    state       TEXT    NOT NULL CHECK (state IN ('pending', 'initializing', 'enqueuing_steps', 'steps_in_process',
        'evaluating_results', 'waiting_for_dependencies', 'waiting_for_retry', 'blocked_by_failures', 'complete', 'error',
        'cancelled', 'resolved_manually')),
    paused      INTEGER NOT NULL CHECK (paused = 0 OR paused = 1),
    waiting     INTEGER NOT NULL CHECK (waiting >= 0),  -- how many of its tasks are where
    nested      INTEGER NOT NULL CHECK (nested >= 0),
    active      INTEGER NOT NULL CHECK (active >= 0),
    timed       INTEGER NOT NULL CHECK (timed >= 0),
    done        INTEGER NOT NULL CHECK (done >= 0),
    skipped     INTEGER NOT NULL CHECK (skipped >= 0),
    cancelled   INTEGER NOT NULL CHECK (cancelled >= 0),
    failed      INTEGER NOT NULL CHECK (failed >= 0),
    owner       TEXT,
    owned_until INTEGER,
    updated_at  INTEGER NOT NULL,
    finished_at INTEGER,
    entries     INTEGER NOT NULL CHECK (entries > 0),
    retries     INTEGER NOT NULL CHECK (retries >= 0),
    rank        INTEGER NOT NULL,
    CHECK ((finished_at IS NOT NULL) = (state IN ('complete', 'error', 'cancelled', 'resolved_manually'))),
    CHECK ((owner IS NULL) = (owned_until IS NULL))
) STRICT;

CREATE UNIQUE INDEX workflows_key ON workflows (namespace, name, key) WHERE key IS NOT NULL;
-- Who is a step.
CREATE INDEX workflows_parent ON workflows (parent) WHERE parent IS NOT NULL;
-- What is not over.
CREATE INDEX workflows_open ON workflows (id) WHERE finished_at IS NULL;
-- Those with steps that can be claimed, or are held, best first.
CREATE INDEX workflows_in_process ON workflows (rank DESC, seq) WHERE state = 'steps_in_process';
-- What retention reads.
CREATE INDEX workflows_finished ON workflows (state, finished_at) WHERE finished_at IS NOT NULL;

-- Apart from workflows, so that a change of counts does not rewrite it.
CREATE TABLE inputs (
    workflow INTEGER PRIMARY KEY REFERENCES workflows (seq) ON DELETE CASCADE,
    input    TEXT NOT NULL
) STRICT;

CREATE TABLE workflow_history (
    workflow INTEGER NOT NULL REFERENCES workflows (seq) ON DELETE CASCADE,
    n        INTEGER NOT NULL CHECK (n > 0),
    state    TEXT    NOT NULL,
    at       INTEGER NOT NULL,
    actor    TEXT,
    note     TEXT,
    PRIMARY KEY (workflow, n)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER workflow_history_is_never_altered BEFORE UPDATE ON workflow_history
BEGIN SELECT raise(ABORT, 'history is append-only'); END;

CREATE TRIGGER workflow_history_goes_only_with_its_workflow BEFORE DELETE ON workflow_history
WHEN EXISTS (SELECT 1 FROM workflows WHERE seq = OLD.workflow)
BEGIN SELECT raise(ABORT, 'history is deleted only with its workflow'); END;

-- Kept by every change of a workflow's state, so that counting never scans.
CREATE TABLE workflow_counts (
    namespace TEXT    NOT NULL,
    name      TEXT    NOT NULL,
    state     TEXT    NOT NULL,
    workflows INTEGER NOT NULL CHECK (workflows >= 0),
    PRIMARY KEY (namespace, name, state)
) STRICT, WITHOUT ROWID;

-- What happened to workflows in each minute. Durations are sums.
CREATE TABLE activity (
    minute       INTEGER PRIMARY KEY,
    started      INTEGER NOT NULL,
    completed    INTEGER NOT NULL,
    failed       INTEGER NOT NULL,
    lasted       INTEGER NOT NULL,
    steps        INTEGER NOT NULL,
    failed_steps INTEGER NOT NULL,
    steps_lasted INTEGER NOT NULL
) STRICT;
