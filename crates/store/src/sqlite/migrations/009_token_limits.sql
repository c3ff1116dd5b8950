-- Namespaces, groups, rotation and last use of access tokens.
ALTER TABLE access_tokens ADD COLUMN namespaces TEXT NOT NULL DEFAULT '';    -- patterns; none is all
ALTER TABLE access_tokens ADD COLUMN groups TEXT NOT NULL DEFAULT '';        -- names
ALTER TABLE access_tokens ADD COLUMN previous_id TEXT CHECK (length(previous_id) = 8);
ALTER TABLE access_tokens ADD COLUMN previous_digest BLOB CHECK (length(previous_digest) = 32);
ALTER TABLE access_tokens ADD COLUMN previous_until INTEGER;
ALTER TABLE access_tokens ADD COLUMN last_used_at INTEGER;
