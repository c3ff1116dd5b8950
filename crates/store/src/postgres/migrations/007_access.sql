CREATE TABLE access_tokens (
    name       text        PRIMARY KEY COLLATE "C" CHECK (name <> ''),
    id         text        NOT NULL COLLATE "C" UNIQUE CHECK (length(id) = 8),
    digest     bytea       NOT NULL CHECK (length(digest) = 32),
    scopes     text        NOT NULL CHECK (scopes <> ''),   -- words
    queues     text        NOT NULL,                        -- patterns; none is all
    created_at timestamptz NOT NULL,
    created_by text        CHECK (created_by <> ''),
    expires_at timestamptz
);

-- What operators did.
CREATE TABLE audit (
    seq     bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL,
    actor   text        NOT NULL CHECK (actor <> ''),
    action  text        NOT NULL CHECK (action <> ''),
    subject text        NOT NULL CHECK (subject <> ''),
    reason  text        CHECK (reason <> '')
);

-- Before which moment it need not be kept any more: pruning says so first.
CREATE TABLE audit_kept (
    one   boolean     PRIMARY KEY CHECK (one),
    since timestamptz NOT NULL
);
INSERT INTO audit_kept VALUES (true, 'epoch');

CREATE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_OP = 'DELETE' AND OLD.at < (SELECT since FROM audit_kept) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'the audit is append-only';
END $$;
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE ON audit
    FOR EACH ROW EXECUTE FUNCTION audit_is_append_only();
