-- The namespace that the name of a queue tells: orchestration and orchestration_… are orchestration's, worker_X_queue and X_queue are X's,
-- all others the default one's.
CREATE FUNCTION {prefix}tasker.extract_queue_namespace(queue_name text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN queue_name COLLATE "C" ~ '^orchestration(_|$)' THEN 'orchestration'
        ELSE coalesce(
            substring(queue_name COLLATE "C" FROM '^worker_(.+)_queue$'),
            substring(queue_name COLLATE "C" FROM '^([a-zA-Z][a-zA-Z0-9_]*)_queue$'),
            'default')
    END
$$;
