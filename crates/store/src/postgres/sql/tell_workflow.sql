INSERT INTO windlass.workflow_history (workflow, n, state, at, actor, note)
SELECT $1, u.* FROM unnest($2::integer[], $3::text[], $4::timestamptz[], $5::text[], $6::text[]) AS u
