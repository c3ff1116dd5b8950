-- How many steps and items of a workflow can be claimed. Each is looked up by its key, whatever is believed about the sizes of tables.
CREATE FUNCTION "{schema}".ready_steps(workflow uuid) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT count(*) FROM (
        SELECT k.seq FROM "{schema}".tasks k WHERE k.id >= workflow AND k.id <= "{schema}".last_task(workflow) AND k.is_step OFFSET 0
    ) t CROSS JOIN LATERAL (
        SELECT FROM "{schema}".live l WHERE l.seq = t.seq AND l.state = 'pending' AND (l.lane IS NULL OR l.slot) OFFSET 0
    ) r
$$;
