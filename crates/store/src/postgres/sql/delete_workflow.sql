WITH given AS (
    DELETE FROM windlass.inputs WHERE workflow = $1
)
DELETE FROM windlass.workflows WHERE seq = $1
