-- Nothing, if its id or key is there already.
WITH new AS (
    INSERT INTO windlass.workflows (
        id, namespace, name, version, definition, key, priority, parent, nesting, origin, created_at, state, paused, waiting, nested,
        active, timed, done, skipped, cancelled, failed, owner, owned_until, updated_at, finished_at, entries, retries, rank)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26,
        $27, $28)
    ON CONFLICT DO NOTHING RETURNING seq
), given AS (
    INSERT INTO windlass.inputs (workflow, input) SELECT seq, $29::text::json FROM new
)
SELECT seq FROM new
