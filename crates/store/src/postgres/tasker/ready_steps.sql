-- How many steps and items of a workflow are ready. Each is looked up by its key, whatever is believed about the sizes of tables.
CREATE FUNCTION "{schema}".ready_steps(workflow uuid, paused boolean) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT count(*) FROM (
        SELECT k.seq FROM "{schema}".tasks k WHERE k.id >= workflow AND k.id <= "{schema}".last_task(workflow) AND k.is_step OFFSET 0
    ) t CROSS JOIN LATERAL (SELECT k.state, k.lane, k.slot, k.due_at FROM "{schema}".live k WHERE k.seq = t.seq OFFSET 0) l
    WHERE "{schema}".is_ready(l.state, l.lane, l.slot, l.due_at, paused)
$$;
