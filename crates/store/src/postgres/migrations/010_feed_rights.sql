-- Every role could call `switch_feed`, so one that may only submit could switch the event feed off. The switch now follows the table
-- `listening`: whoever may update that table turns the feed on and off, and nobody else.
CREATE FUNCTION follow_listening() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    PERFORM setval('"{schema}".listened', CASE WHEN NEW.until = 'epoch' THEN 1 ELSE 2 END);
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION follow_listening FROM PUBLIC;
CREATE TRIGGER follow_listening AFTER UPDATE OF until ON listening FOR EACH ROW EXECUTE FUNCTION follow_listening();

-- Processes of the release before call the function. It stays open to roles that may update the table today.
REVOKE ALL ON FUNCTION switch_feed FROM PUBLIC;
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT DISTINCT CASE acl.grantee WHEN 0 THEN 'PUBLIC' ELSE acl.grantee::regrole::text END AS grantee
        FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) acl
        WHERE c.oid = '"{schema}".listening'::regclass AND acl.privilege_type = 'UPDATE' AND acl.grantee <> c.relowner
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION "{schema}".switch_feed TO %s', one.grantee);
    END LOOP;
END $$;
