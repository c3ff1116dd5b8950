-- Namespaces, groups, rotation and last use of access tokens.
ALTER TABLE access_tokens
    ADD COLUMN namespaces      text NOT NULL DEFAULT '',    -- patterns; none is all
    ADD COLUMN groups          text NOT NULL DEFAULT '',    -- names
    ADD COLUMN previous_id     text COLLATE "C" CHECK (length(previous_id) = 8),
    ADD COLUMN previous_digest bytea CHECK (length(previous_digest) = 32),
    ADD COLUMN previous_until  timestamptz,
    ADD COLUMN last_used_at    timestamptz;
