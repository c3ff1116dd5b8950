-- Namespaces, groups, rotation and last use of access tokens.
ALTER TABLE access_tokens
    ADD COLUMN namespaces   text NOT NULL DEFAULT '',  -- patterns; none is all
    ADD COLUMN groups       text NOT NULL DEFAULT '',  -- names
    ADD COLUMN previous     text NOT NULL DEFAULT '',  -- former secrets: ID:DIGEST:UNTIL
    ADD COLUMN last_used_at timestamptz;

-- One row from the first token on. It stays when the last one is revoked: a server stays closed.
CREATE TABLE had_access_tokens (one boolean PRIMARY KEY CHECK (one));
INSERT INTO had_access_tokens SELECT true
WHERE EXISTS (SELECT FROM access_tokens) OR EXISTS (SELECT FROM audit WHERE action = 'token.create');

-- The namespace that an entry is about, if it is about one.
ALTER TABLE audit ADD COLUMN namespace text CHECK (namespace <> '');
