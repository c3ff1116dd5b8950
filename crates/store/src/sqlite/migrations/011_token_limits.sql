-- Namespaces, groups, rotation and last use of access tokens.
ALTER TABLE access_tokens ADD COLUMN namespaces TEXT NOT NULL DEFAULT '';  -- patterns; none is all
ALTER TABLE access_tokens ADD COLUMN groups TEXT NOT NULL DEFAULT '';      -- names
ALTER TABLE access_tokens ADD COLUMN previous TEXT NOT NULL DEFAULT '';    -- former secrets: ID:DIGEST:UNTIL
ALTER TABLE access_tokens ADD COLUMN last_used_at INTEGER;

-- One row from the first token on. It stays when the last one is revoked: a server stays closed.
CREATE TABLE had_access_tokens (only INTEGER PRIMARY KEY CHECK (only = 1)) STRICT;
INSERT INTO had_access_tokens SELECT 1
WHERE EXISTS (SELECT 1 FROM access_tokens) OR EXISTS (SELECT 1 FROM audit WHERE action = 'token.create');

-- The namespace that an entry is about, if it is about one.
ALTER TABLE audit ADD COLUMN namespace TEXT CHECK (namespace <> '');
