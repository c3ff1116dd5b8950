-- How many steps and items of a workflow can be claimed.
CREATE FUNCTION {schema}.ready_steps(workflow uuid) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT count(*) FROM {schema}.tasks t JOIN {schema}.live l ON l.seq = t.seq
    WHERE t.id >= workflow AND t.id <= {schema}.last_task(workflow) AND t.is_step AND l.state = 'pending' AND (l.lane IS NULL OR l.slot)
$$;
