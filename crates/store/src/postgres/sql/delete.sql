-- Deletes tasks with all that belongs to them but their history, which goes when they are gone. They are over, or were not
-- until this very transaction.
WITH gone AS (
    DELETE FROM windlass.ended WHERE seq = ANY ($1)
), unborn AS (
    DELETE FROM windlass.live WHERE seq = ANY ($1)
), told AS (
    DELETE FROM windlass.notes WHERE task = ANY ($1)
)
DELETE FROM windlass.tasks WHERE seq = ANY ($1)
