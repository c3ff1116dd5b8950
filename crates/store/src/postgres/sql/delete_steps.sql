-- The tasks of a workflow, with all that belongs to them.
WITH gone AS MATERIALIZED (
    DELETE FROM windlass.tasks t WHERE t.id >= $1 AND t.id <= $2 AND t.is_step RETURNING t.seq
), ended AS (
    DELETE FROM windlass.ended e WHERE e.seq = ANY (ARRAY(SELECT seq FROM gone))
), live AS (
    DELETE FROM windlass.live l WHERE l.seq = ANY (ARRAY(SELECT seq FROM gone))
), told AS (
    DELETE FROM windlass.notes n WHERE n.task = ANY (ARRAY(SELECT seq FROM gone))
)
SELECT seq FROM gone
