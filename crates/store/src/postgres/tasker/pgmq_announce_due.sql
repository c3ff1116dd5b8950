-- Announces delayed messages whose time has come, and says how many these were. Every running program of Windlass does that at the right
-- moment; this is for where none is running.
CREATE FUNCTION {prefix}tasker.pgmq_announce_due() RETURNS bigint LANGUAGE sql SECURITY DEFINER
SET search_path = "{schema}", pg_temp
AS $$ SELECT announced FROM announce_messages() $$;
REVOKE ALL ON FUNCTION {prefix}tasker.pgmq_announce_due FROM PUBLIC;
