-- Moments are microseconds since 1970 in UTC, durations microseconds, ids the 16 bytes of the UUID.

CREATE TABLE tasks (
    seq           INTEGER PRIMARY KEY,  -- the order of submission; never used again
    id            BLOB    NOT NULL UNIQUE CHECK (length(id) = 16),
    namespace     TEXT    NOT NULL CHECK (namespace <> ''),
    queue         TEXT    NOT NULL CHECK (queue <> ''),
    kind          TEXT    NOT NULL CHECK (kind <> ''),
    state         TEXT    NOT NULL,
    priority      INTEGER NOT NULL,
    per_hour      INTEGER NOT NULL CHECK (per_hour >= 0),    -- ageing, thousandths of a point
    per_retry     INTEGER NOT NULL CHECK (per_retry >= 0),
    key           TEXT    CHECK (key <> ''),
    lane          TEXT    CHECK (lane <> ''),                -- an entity's begins with @
    lane_limit    INTEGER CHECK (lane_limit > 0),
    lane_strict   INTEGER CHECK (lane_strict = 0 OR lane_strict = 1),
    timeout       INTEGER CHECK (timeout > 0),
    tags          TEXT,                                      -- JSON list
    max_attempts  INTEGER CHECK (max_attempts > 0),          -- null is no limit
    retry         TEXT,                                      -- JSON; null is the default policy
    created_at    INTEGER NOT NULL,
    attempt       INTEGER NOT NULL CHECK (attempt >= 0 AND (max_attempts IS NULL OR attempt <= max_attempts)),
    lease         INTEGER NOT NULL CHECK (lease >= attempt),
    worker        TEXT,
    due_at        INTEGER,
    claimed_at    INTEGER,
    started_at    INTEGER,
    finished_at   INTEGER,
    updated_at    INTEGER NOT NULL,
    error         TEXT    CHECK (error <> ''),
    slot          INTEGER NOT NULL CHECK (slot = 0 OR slot = 1),
    rank          INTEGER NOT NULL,
    entries       INTEGER NOT NULL CHECK (entries > 0),
    result        TEXT,
    is_step       INTEGER NOT NULL DEFAULT 0 CHECK (is_step = 0 OR is_step = 1),  -- of the workflow that its id begins with
    waits         TEXT,                 -- what it waits for: parents, items, workflow or resume
    met           INTEGER CHECK (met >= 0),                             -- how many of them are done
    others        INTEGER CHECK (others >= 0),                          -- parents that never will be; items in all
    CHECK ((lane IS NULL) = (lane_limit IS NULL)),
    -- The words, and what must hold beside each. Not `IN (…)`: SQLite builds a table for every such list, each time.
    CHECK (CASE state
        WHEN 'pending' THEN worker IS NULL AND due_at IS NULL AND finished_at IS NULL AND error IS NULL
        WHEN 'claimed' THEN worker IS NOT NULL AND due_at IS NULL AND finished_at IS NULL AND error IS NULL
        WHEN 'running' THEN worker IS NOT NULL AND due_at IS NULL AND finished_at IS NULL AND error IS NULL
        WHEN 'completed' THEN (worker IS NOT NULL OR is_step = 1) AND due_at IS NULL AND finished_at IS NOT NULL AND error IS NULL
        WHEN 'waiting' THEN worker IS NULL AND due_at IS NULL AND finished_at IS NULL AND error IS NULL
        WHEN 'scheduled' THEN worker IS NULL AND due_at IS NOT NULL AND finished_at IS NULL AND error IS NULL
        WHEN 'waiting_for_retry' THEN worker IS NULL AND due_at IS NOT NULL AND finished_at IS NULL AND error IS NOT NULL
        WHEN 'failed' THEN due_at IS NULL AND finished_at IS NOT NULL AND error IS NOT NULL
        WHEN 'dead_letter' THEN due_at IS NULL AND finished_at IS NOT NULL AND error IS NOT NULL
        WHEN 'cancelled' THEN due_at IS NULL AND finished_at IS NOT NULL AND error IS NULL
        WHEN 'skipped' THEN due_at IS NULL AND finished_at IS NOT NULL AND error IS NULL
        WHEN 'resolved_manually' THEN due_at IS NULL AND finished_at IS NOT NULL AND error IS NULL
        ELSE FALSE
    END),
    CHECK (CASE state WHEN 'completed' THEN result IS NOT NULL WHEN 'resolved_manually' THEN TRUE ELSE result IS NULL END),
    CHECK ((state = 'waiting') = (waits IS NOT NULL)),
    CHECK ((worker IS NULL) = (claimed_at IS NULL)),
    CHECK (slot = 0 OR lane IS NOT NULL)
) STRICT;

-- What a claim reads. Parked, blocked and finished tasks are not in it.
CREATE INDEX tasks_claimable ON tasks (namespace, queue, kind, rank DESC)
    WHERE state = 'pending' AND (lane IS NULL OR slot = 1);
-- What an expired lease is found by.
CREATE INDEX tasks_held ON tasks (worker) WHERE worker IS NOT NULL AND finished_at IS NULL;
-- What time moves on.
CREATE INDEX tasks_due ON tasks (due_at) WHERE due_at IS NOT NULL;
-- One task per key.
CREATE UNIQUE INDEX tasks_key ON tasks (namespace, kind, key) WHERE key IS NOT NULL;
-- Who holds a slot of a lane, and who waits for one.
CREATE INDEX tasks_slots ON tasks (namespace, lane) WHERE slot = 1;
CREATE INDEX tasks_parked ON tasks (namespace, lane) WHERE lane IS NOT NULL AND slot = 0 AND state = 'pending';
-- What retention reads. Steps go with their workflow.
CREATE INDEX tasks_finished ON tasks (state, finished_at) WHERE finished_at IS NOT NULL AND is_step = 0;
-- What listings by state read. The states of a task that goes well are left out, so that it pays nothing.
CREATE INDEX tasks_unusual ON tasks (state)
    WHERE state <> 'pending' AND state <> 'claimed' AND state <> 'running' AND state <> 'completed';

-- Everything but the result, which may be large and is read only when it is wanted.
CREATE VIEW task_rows AS SELECT
    seq, id, namespace, queue, kind, priority, per_hour, per_retry, key, lane, lane_limit, lane_strict, timeout, tags,
    max_attempts, retry, created_at, state, attempt, lease, worker, due_at, claimed_at, started_at, finished_at,
    updated_at, error, slot, rank, entries, is_step, waits, met, others
FROM tasks;

-- Apart from tasks, so that a change of state does not rewrite it. Steps have none: what they are given follows from their workflow.
CREATE TABLE payloads (
    task    INTEGER PRIMARY KEY REFERENCES tasks (seq) ON DELETE CASCADE,
    payload TEXT NOT NULL
) STRICT;

CREATE TABLE history (
    task   INTEGER NOT NULL REFERENCES tasks (seq) ON DELETE CASCADE,
    n      INTEGER NOT NULL CHECK (n > 0),
    state  TEXT    NOT NULL,
    at     INTEGER NOT NULL,
    reason TEXT    NOT NULL,
    actor  TEXT,
    note   TEXT,
    PRIMARY KEY (task, n)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER history_is_never_altered BEFORE UPDATE ON history
BEGIN SELECT raise(ABORT, 'history is append-only'); END;

CREATE TRIGGER history_goes_only_with_its_task BEFORE DELETE ON history
WHEN EXISTS (SELECT 1 FROM tasks WHERE seq = OLD.task)
BEGIN SELECT raise(ABORT, 'history is deleted only with its task'); END;

-- Kept by every change of state, so that counting never scans.
CREATE TABLE counts (
    namespace TEXT    NOT NULL,
    queue     TEXT    NOT NULL,
    kind      TEXT    NOT NULL,
    is_step   INTEGER NOT NULL CHECK (is_step = 0 OR is_step = 1),
    state     TEXT    NOT NULL,
    tasks     INTEGER NOT NULL CHECK (tasks >= 0),
    PRIMARY KEY (namespace, queue, kind, is_step, state)
) STRICT, WITHOUT ROWID;

CREATE TABLE workers (
    id           TEXT    PRIMARY KEY,
    namespace    TEXT    NOT NULL,
    host         TEXT    NOT NULL,
    version      TEXT    NOT NULL,
    pool_size    INTEGER NOT NULL,
    queues       TEXT    NOT NULL,  -- JSON list
    kinds        TEXT    NOT NULL,  -- JSON list
    dead_after   INTEGER NOT NULL,
    started_at   INTEGER NOT NULL,
    heartbeat_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE leader (
    only   INTEGER PRIMARY KEY CHECK (only = 1),
    holder TEXT    NOT NULL,
    term   INTEGER NOT NULL,
    until  INTEGER NOT NULL
) STRICT;

CREATE TABLE paused_queues (
    namespace TEXT NOT NULL,
    queue     TEXT NOT NULL,
    PRIMARY KEY (namespace, queue)
) STRICT, WITHOUT ROWID;

CREATE TABLE entities (
    namespace TEXT NOT NULL,
    entity    TEXT NOT NULL,
    PRIMARY KEY (namespace, entity)
) STRICT, WITHOUT ROWID;

-- The last number given to a task. Not max(seq): a number must not come back when the newest task is deleted.
CREATE TABLE sequence (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    last INTEGER NOT NULL
) STRICT;
INSERT INTO sequence VALUES (1, 0);
