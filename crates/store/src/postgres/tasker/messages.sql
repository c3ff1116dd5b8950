-- Document 002's message queues. They have nothing to do with tasks: a message is hidden from other readers for as long as its reader has
-- asked for, and is there again if it was not deleted until then.
CREATE TABLE message_queues (
    name       text        PRIMARY KEY COLLATE "C" CHECK (name ~ '^[A-Za-z0-9_]{1,47}$'),
    created_at timestamptz NOT NULL
);

CREATE TABLE messages (
    msg_id      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue       text        NOT NULL COLLATE "C",
    read_ct     integer     NOT NULL DEFAULT 0 CHECK (read_ct >= 0),
    enqueued_at timestamptz NOT NULL,
    delay       integer     NOT NULL CHECK (delay >= 0),              -- seconds from there to when it was first to be seen
    vt          timestamptz NOT NULL,                                 -- nobody sees it before
    announced   boolean     NOT NULL,
    message     jsonb       NOT NULL
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- What a reader reads.
CREATE INDEX messages_visible ON messages (queue, vt, msg_id);
-- Delayed ones, of which nobody was told yet.
CREATE INDEX messages_unannounced ON messages (vt, msg_id) WHERE NOT announced;
