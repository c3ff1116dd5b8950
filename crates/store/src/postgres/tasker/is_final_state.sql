-- Whether nothing more happens to a workflow in this state.
CREATE FUNCTION is_final_state(state text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT state IN ('complete', 'error', 'cancelled', 'resolved_manually')
$$;
