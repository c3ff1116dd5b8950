CREATE TABLE access_tokens (
    name       TEXT    PRIMARY KEY,
    id         TEXT    NOT NULL UNIQUE CHECK (length(id) = 8),
    digest     BLOB    NOT NULL CHECK (length(digest) = 32),
    scopes     TEXT    NOT NULL CHECK (scopes <> ''),       -- words
    queues     TEXT    NOT NULL,                            -- patterns; none is all
    created_at INTEGER NOT NULL,
    created_by TEXT    CHECK (created_by <> ''),
    expires_at INTEGER
) STRICT, WITHOUT ROWID;

-- What operators did.
CREATE TABLE audit (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    actor   TEXT    NOT NULL CHECK (actor <> ''),
    action  TEXT    NOT NULL CHECK (action <> ''),
    subject TEXT    NOT NULL CHECK (subject <> ''),
    reason  TEXT    CHECK (reason <> '')
) STRICT;

-- Before which moment it need not be kept any more: pruning says so first.
CREATE TABLE audit_kept (
    only  INTEGER PRIMARY KEY CHECK (only = 1),
    since INTEGER NOT NULL
) STRICT;
INSERT INTO audit_kept VALUES (1, 0);

CREATE TRIGGER audit_is_never_altered BEFORE UPDATE ON audit
BEGIN SELECT raise(ABORT, 'the audit is append-only'); END;

CREATE TRIGGER audit_is_kept BEFORE DELETE ON audit
WHEN OLD.at >= (SELECT since FROM audit_kept)
BEGIN SELECT raise(ABORT, 'the audit is append-only'); END;
