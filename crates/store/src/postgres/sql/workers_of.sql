-- Locked, so that a heartbeat and an expiry agree on which was first.
SELECT id, heartbeat_at, dead_after FROM windlass.workers WHERE id = ANY ($1) ORDER BY id FOR SHARE
