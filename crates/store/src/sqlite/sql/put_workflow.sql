INSERT INTO workflows (
    seq, id, namespace, name, version, definition, key, priority, parent, nesting, origin, created_at, state, paused, waiting, nested,
    active, timed, done, skipped, cancelled, failed, owner, owned_until, updated_at, finished_at, entries, retries, rank)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28,
    ?29)
ON CONFLICT (seq) DO UPDATE SET
    state = ?13, paused = ?14, waiting = ?15, nested = ?16, active = ?17, timed = ?18, done = ?19, skipped = ?20, cancelled = ?21,
    failed = ?22, owner = ?23, owned_until = ?24, updated_at = ?25, finished_at = ?26, entries = ?27, retries = ?28, rank = ?29
