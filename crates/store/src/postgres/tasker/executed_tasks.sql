-- The workflows that were completed, or given up, since a moment, and how long they took from their start.
CREATE FUNCTION "{schema}".executed_tasks(since timestamptz, of_namespace text, of_name text, of_version text) RETURNS TABLE (
    namespace   text,
    name        text,
    version     text,
    id          uuid,
    state       text,
    steps       bigint,
    done        bigint,
    failed      bigint,
    created_at  timestamptz,
    finished_at timestamptz,
    seconds     numeric
) LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT w.namespace, w.name, "{schema}".shown_version(w.version), w.id, w.state,
        w.waiting + w.nested + w.active + w.timed + w.done + w.skipped + w.cancelled + w.failed, w.done, w.failed, w.created_at, w.finished_at,
        greatest(extract(epoch FROM w.finished_at - w.created_at), 0)
    FROM "{schema}".workflows w
    WHERE w.state IN ('complete', 'error') AND w.finished_at >= since
        AND (of_namespace IS NULL OR w.namespace = of_namespace) AND (of_name IS NULL OR w.name = of_name)
        AND (of_version IS NULL OR "{schema}".shown_version(w.version) = of_version)
$$;
