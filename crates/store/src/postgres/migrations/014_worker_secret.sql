-- The digest of a worker's secret; none for one that opens the store directly.
ALTER TABLE workers ADD COLUMN secret bytea CHECK (octet_length(secret) = 32);
