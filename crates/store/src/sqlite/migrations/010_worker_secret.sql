-- The digest of a worker's secret; none for one that opens the store directly.
ALTER TABLE workers ADD COLUMN secret BLOB CHECK (secret IS NULL OR length(secret) = 32);
