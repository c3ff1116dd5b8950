-- What attempts tell about themselves. With a rowid, because logs and details may be large.
CREATE TABLE notes (
    task     INTEGER NOT NULL REFERENCES tasks (seq) ON DELETE CASCADE,
    lease    INTEGER NOT NULL CHECK (lease > 0),
    progress TEXT,                                     -- JSON: done, total, note
    details  TEXT,                                     -- as it was sent
    dropped  INTEGER NOT NULL CHECK (dropped >= 0),
    lines    TEXT    NOT NULL,                         -- JSON list of [moment, text]
    PRIMARY KEY (task, lease)
) STRICT;

CREATE TABLE schedules (
    namespace  TEXT    NOT NULL CHECK (namespace <> ''),
    name       TEXT    NOT NULL CHECK (name <> ''),
    cron       TEXT    NOT NULL CHECK (cron <> ''),
    zone       TEXT    NOT NULL CHECK (zone <> ''),
    template   TEXT    NOT NULL,                       -- JSON
    missed     TEXT    NOT NULL,
    overlap    TEXT    NOT NULL,
    paused     INTEGER NOT NULL CHECK (paused = 0 OR paused = 1),
    next_at    INTEGER NOT NULL,
    last_at    INTEGER,
    last_task  BLOB    CHECK (length(last_task) = 16),
    fired      INTEGER NOT NULL CHECK (fired >= 0),
    skipped    INTEGER NOT NULL CHECK (skipped >= 0),
    error      TEXT,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, name)
) STRICT;

-- What time asks for.
CREATE INDEX schedules_due ON schedules (next_at, namespace, name) WHERE paused = 0;
