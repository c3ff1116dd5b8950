-- The feed of changes. Nothing is written here unless somebody listens.
CREATE TABLE events (
    seq       INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used again, so that a place in the feed stays one
    at        INTEGER NOT NULL,
    namespace TEXT    NOT NULL,
    what      TEXT    NOT NULL CHECK (what = 'task' OR what = 'step' OR what = 'workflow'),
    subject   BLOB    NOT NULL CHECK (length(subject) = 16),
    queue     TEXT    CHECK ((queue IS NULL) = (what = 'workflow')),
    name      TEXT    NOT NULL,                   -- the kind of a task, the name of a workflow
    state     TEXT    NOT NULL,
    attempt   INTEGER CHECK ((attempt IS NULL) = (what = 'workflow'))
) STRICT;

CREATE TABLE listening (
    only  INTEGER PRIMARY KEY CHECK (only = 1),
    begun INTEGER NOT NULL,                       -- when somebody began to listen: part of the ids of events
    since INTEGER NOT NULL,                       -- the last event that is not known, or not any more
    until INTEGER NOT NULL                        -- changes are told until then; 0 is not at all
) STRICT;
INSERT INTO listening VALUES (1, 0, 0, 0);
