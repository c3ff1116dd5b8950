-- The priority of a workflow at this moment: the older it is, and the more often it was retried, the higher.
CREATE FUNCTION "{schema}".computed_priority(priority integer, created_at timestamptz, retries bigint) RETURNS numeric
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT priority + 0.1 * (greatest(extract(epoch FROM statement_timestamp() - created_at), 0) / 3600 + least(retries, 100))
$$;
