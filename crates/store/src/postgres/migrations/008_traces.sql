-- What a task is part of, for who follows requests through many programs: a W3C trace context.

ALTER TABLE tasks ADD COLUMN traceparent text COLLATE "C";
-- No task has one yet, so that none need be looked at.
ALTER TABLE tasks ADD CONSTRAINT tasks_traceparent CHECK (length(traceparent) = 55) NOT VALID;

CREATE OR REPLACE VIEW task_rows AS SELECT
    t.seq, t.id, t.namespace, t.queue, t.kind, t.priority, t.per_hour, t.per_retry, t.key, t.lane, t.lane_limit,
    t.lane_strict, t.timeout, t.tags, t.max_attempts, t.retry, t.created_at, s.state, s.attempt, s.lease, s.worker,
    s.due_at, s.claimed_at, s.started_at, s.finished_at, s.updated_at, s.error, s.slot, s.rank, s.entries,
    t.is_step, s.waits, s.met, s.others, t.traceparent
FROM tasks t CROSS JOIN LATERAL (
    SELECT l.state, l.attempt, l.lease, l.worker, l.due_at, l.claimed_at, l.started_at,
        NULL::timestamptz AS finished_at, l.updated_at, l.error, l.slot, l.rank, l.entries, l.waits, l.met, l.others
    FROM live l WHERE l.seq = t.seq
    UNION ALL
    SELECT e.state, e.attempt, e.lease, e.worker, NULL, e.claimed_at, e.started_at,
        e.finished_at, e.updated_at, e.error, false, e.rank, e.entries, NULL, NULL, NULL
    FROM ended e WHERE e.seq = t.seq
) s;

-- Submitting from SQL: the functions of 002, with one thing more that can be said.
ALTER TYPE new_task ADD ATTRIBUTE traceparent text;

-- Checks the trace of a task as the programs do. A later version of the format is read as far as version 00 goes.
CREATE FUNCTION traced(t new_task) RETURNS new_task LANGUAGE plpgsql AS $$
DECLARE
    given constant text := t.traceparent;
BEGIN
    IF given COLLATE "C" !~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?$' OR starts_with(given, 'ff')
        OR starts_with(given, '00') AND length(given) <> 55
        OR substr(given, 4, 32) = repeat('0', 32) OR substr(given, 37, 16) = repeat('0', 16)
    THEN
        PERFORM refuse('traceparent', quoted(given),
            '00-TRACE-SPAN-FLAGS of 32, 16 and 2 digits from 0-9 a-f, with neither id all zeros');
    ELSIF NOT starts_with(given, '00') THEN
        t.traceparent := '00' || substr(given, 3, 51) || CASE WHEN substr(given, 55, 1) ~ '[13579bdf]' THEN '01' ELSE '00' END;
    END IF;
    RETURN t;
END $$;

-- Accepts all of them or none, and answers in their order.
CREATE OR REPLACE FUNCTION admit(asked new_task[]) RETURNS TABLE (id uuid, created boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    last      constant timestamptz := '9999-12-31 23:59:59.999999+00';
    many      constant integer := cardinality(asked);
    place     integer := 0;
    now       timestamptz;
    seqs      bigint[];
    known     uuid[] := array_fill(NULL::uuid, ARRAY[many]);  -- those that are there already
    todo      integer[];
    added     integer;
    found_id  uuid;
    refused   text;
    t         record;
    claimable boolean;
    timed     boolean;
    parked    boolean;
BEGIN
    IF many > 1000 THEN
        PERFORM refuse('number of tasks', many::text, 'at most 1000 in one batch');
    ELSIF many = 0 THEN
        RETURN;
    END IF;
    -- Everything is checked before anything is waited for.
    BEGIN
        FOR place_now IN 1..many LOOP
            place := place_now;
            asked[place] := complete(asked[place]);
            IF (asked[place]).traceparent IS NOT NULL THEN
                asked[place] := traced(asked[place]);
            END IF;
        END LOOP;
    EXCEPTION WHEN data_exception THEN
        PERFORM refuse_one(SQLERRM, '22023', place, many);
    END;
    -- Everyone who changes the line of a lane takes its lock first, in one order.
    PERFORM pg_advisory_xact_lock(lock) FROM (
        SELECT DISTINCT hashtextextended(a.namespace || ' ' || a.lane, {salt}) AS lock
        FROM unnest(asked) a WHERE a.lane IS NOT NULL ORDER BY lock OFFSET 0
    ) locks;
    now := clock_timestamp();
    seqs := ARRAY(SELECT nextval('tasks_seq_seq') FROM generate_series(1, many));
    todo := ARRAY(SELECT generate_series(1, many));
    LOOP
        -- By key, so that two who submit the same keys wait for each other in one order. If another submits one at the same time,
        -- this waits for what becomes of it; then there is something to look at.
        INSERT INTO tasks (
            seq, id, namespace, queue, kind, priority, per_hour, per_retry, key, lane, lane_limit, lane_strict, timeout, tags,
            max_attempts, retry, created_at, actor, payload, traceparent)
        SELECT seqs[a.place], coalesce(a.id, fresh_id(now)), a.namespace, a.queue, a.kind, a.priority, a.ageing_per_hour,
            a.ageing_per_retry, a.key, a.lane, a.lane_limit, a.lane_strict, trunc(extract(epoch FROM a.timeout) * 1000000),
            CASE WHEN cardinality(a.tags) > 0 THEN array_to_json(ARRAY(SELECT unnest(a.tags))) END,
            a.max_attempts, a.retry, now, a.actor, a.payload, a.traceparent
        FROM (SELECT u.place, (asked[u.place]).* FROM unnest(todo) AS u (place)) a
        ORDER BY a.namespace COLLATE "C", a.kind COLLATE "C", a.key COLLATE "C", a.place
        ON CONFLICT DO NOTHING;
        GET DIAGNOSTICS added = ROW_COUNT;
        EXIT WHEN added = cardinality(todo);
        FOR t IN
            SELECT a.* FROM (SELECT u.place, (asked[u.place]).* FROM unnest(todo) AS u (place)) a
            WHERE NOT EXISTS (SELECT FROM tasks k WHERE k.seq = seqs[a.place]) ORDER BY a.place
        LOOP
            SELECT k.id INTO found_id FROM tasks k
            WHERE k.namespace = t.namespace AND k.kind = t.kind AND k.key = t.key;
            IF FOUND AND t.on_conflict = 'reject' THEN
                refused := format('a task with key %s exists already: %s; use another key, or delete it',
                    to_json(t.key), found_id);
                PERFORM refuse_one(refused, '23505', t.place, many);
            ELSIF FOUND THEN
                known[t.place] := found_id;
            ELSIF EXISTS (SELECT FROM tasks k WHERE k.id = t.id) THEN
                refused := format('a task with id %s exists already; ids are never reused', t.id);
                PERFORM refuse_one(refused, '23505', t.place, many);
            END IF;
        END LOOP;
        -- One that stood in the way is gone again: once more.
        todo := ARRAY(SELECT p FROM unnest(todo) p
            WHERE known[p] IS NULL AND NOT EXISTS (SELECT FROM tasks k WHERE k.seq = seqs[p]));
        EXIT WHEN todo = '{}';
    END LOOP;
    SELECT a.place, a.entity INTO t FROM (SELECT p AS place, (asked[p]).* FROM generate_series(1, many) p) a
    WHERE a.require_entity AND a.entity IS NOT NULL AND known[a.place] IS NULL
        AND NOT EXISTS (SELECT FROM entities e WHERE e.namespace = a.namespace AND e.entity = a.entity)
    ORDER BY a.place LIMIT 1;
    IF FOUND THEN
        refused := format('entity %s is not registered; register it, or submit without require_entity', to_json(t.entity));
        PERFORM refuse_one(refused, '22023', t.place, many);
    END IF;
    WITH new AS MATERIALIZED (
        SELECT seqs[a.place] AS seq, a.namespace, a.queue, a.kind, a.lane, a.lane_limit, a.actor,
            greatest(a.priority::numeric * 1000000 - div(
                a.ageing_per_hour::numeric * 1000 * trunc(extract(epoch FROM now) * 1000000), 3600000000
            ), -9223372036854775808) AS rank,
            CASE WHEN w.due > now THEN w.due END AS due,
            CASE WHEN w.due > now THEN 'scheduled' ELSE 'pending' END AS state
        FROM (SELECT p AS place, (asked[p]).* FROM generate_series(1, many) p) a
        CROSS JOIN LATERAL (SELECT CASE
            WHEN a.run_at IS NOT NULL THEN least(a.run_at, last)
            WHEN extract(epoch FROM a.delay) > 300000000000 THEN last
            -- Days of 24 hours, whatever the caller's time zone.
            WHEN a.delay IS NOT NULL THEN least(((now AT TIME ZONE 'UTC') + a.delay) AT TIME ZONE 'UTC', last)
        END AS due) w
        WHERE known[a.place] IS NULL
    ), begun AS (
        INSERT INTO live (
            seq, namespace, queue, kind, lane, lane_limit, state, attempt, lease, due_at, updated_at, slot, rank, entries, plain)
        SELECT seq, namespace, queue, kind, lane, lane_limit, state, 0, 0, due, now, false, rank, 1, state = 'pending' FROM new
    ), told AS (
        INSERT INTO history_rows (task, n, state, at, reason, actor)
        SELECT seq, 1, state, now, 'submitted', actor FROM new WHERE state <> 'pending'
    )
    SELECT bool_or(state = 'pending' AND lane IS NULL), bool_or(state <> 'pending'),
        bool_or(state = 'pending' AND lane IS NOT NULL)
    INTO claimable, timed, parked FROM new;
    PERFORM count_more(ROW (l.namespace, l.queue, l.kind, false, l.state, 0, count(*))::counts)
    FROM live l WHERE l.seq = ANY (seqs) GROUP BY l.namespace, l.queue, l.kind, l.state;
    IF parked THEN
        SELECT fill_lanes(array_agg(l.namespace), array_agg(l.lane)) OR claimable INTO claimable
        FROM live l WHERE l.seq = ANY (seqs) AND l.lane IS NOT NULL AND l.state = 'pending';
    END IF;
    IF claimable OR timed THEN
        PERFORM pg_notify('{schema}', ' ' || CASE WHEN claimable THEN 'c' ELSE '' END || CASE WHEN timed THEN 't' ELSE '' END);
    END IF;
    RETURN QUERY SELECT coalesce(known[p], k.id), known[p] IS NULL
        FROM generate_series(1, many) p LEFT JOIN tasks k ON k.seq = seqs[p] ORDER BY p;
END $$;

-- Submits one task and returns its id; that of the task which has the key already, if there is one. NULL is the default of every
-- parameter but max_attempts, where it is no limit.
CREATE FUNCTION submit(
    kind             text,
    payload          json        DEFAULT 'null',
    queue            text        DEFAULT 'default',
    namespace        text        DEFAULT 'default',
    priority         integer     DEFAULT 0,
    key              text        DEFAULT NULL,      -- idempotency key
    on_conflict      text        DEFAULT 'return',  -- or 'reject', if the key exists
    run_at           timestamptz DEFAULT NULL,      -- not before
    delay            interval    DEFAULT NULL,      -- from now
    lane             text        DEFAULT NULL,
    lane_limit       integer     DEFAULT NULL,      -- 1
    entity           text        DEFAULT NULL,      -- type:id, a lane of one
    lane_strict      boolean     DEFAULT false,     -- keeps its place in the lane while it waits for a retry
    require_entity   boolean     DEFAULT false,
    timeout          interval    DEFAULT NULL,      -- of one attempt
    tags             text[]      DEFAULT NULL,
    max_attempts     integer     DEFAULT 3,
    retry            json        DEFAULT NULL,
    ageing_per_hour  integer     DEFAULT 0,         -- thousandths of a point of priority
    ageing_per_retry integer     DEFAULT 0,
    actor            text        DEFAULT NULL,
    id               uuid        DEFAULT NULL,
    traceparent      text        DEFAULT NULL       -- W3C trace context, handed to the handler
) RETURNS uuid LANGUAGE sql SECURITY DEFINER
-- A temporary table of the caller must not stand in for one of these. Every table has its index, so that no plan need be made twice.
SET search_path = "{schema}", pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
    SELECT a.id FROM admit(ARRAY[ROW (
        kind, payload, queue, namespace, priority, key, on_conflict, run_at, delay, lane, lane_limit, entity, lane_strict,
        require_entity, timeout, tags, max_attempts, retry, ageing_per_hour, ageing_per_retry, actor, id, traceparent
    )::new_task]) a
$$;

REVOKE ALL ON FUNCTION submit(
    text, json, text, text, integer, text, text, timestamptz, interval, text, integer, text, boolean, boolean, interval,
    text[], integer, json, integer, integer, text, uuid, text
) FROM PUBLIC;

-- With one more parameter it is another function: whoever might call the old one may call this.
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT new.oid::regprocedure AS function, a.is_grantable,
            CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS grantee
        FROM pg_proc old CROSS JOIN LATERAL aclexplode(old.proacl) a
        JOIN pg_proc new ON new.proname = old.proname AND new.pronamespace = old.pronamespace AND new.pronargs = 23
        WHERE old.proname = 'submit' AND old.pronamespace = '"{schema}"'::regnamespace AND old.pronargs = 22
            AND a.grantee <> old.proowner
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', one.function, one.grantee)
            || CASE WHEN one.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END;
    END LOOP;
END $$;

DROP FUNCTION submit(
    text, json, text, text, integer, text, text, timestamptz, interval, text, integer, text, boolean, boolean, interval,
    text[], integer, json, integer, integer, text, uuid
);

-- Submits up to 1,000 tasks, all or none: a list of objects whose members are named as the parameters of submit. Answers in
-- their order with ids, and whether the task was created now.
CREATE OR REPLACE FUNCTION submit_many(tasks json) RETURNS TABLE (id uuid, created boolean) LANGUAGE plpgsql SECURITY DEFINER
SET search_path = "{schema}", pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    many    integer;
    place   integer := 0;
    one     json;
    unknown text;
    asked   new_task[] := '{}';
    plain   new_task;
    detail  text;
BEGIN
    IF json_typeof(tasks) IS DISTINCT FROM 'array' THEN
        PERFORM refuse('tasks', quoted(tasks::text), 'a list of objects');
    END IF;
    many := json_array_length(tasks);
    IF many > 1000 THEN
        PERFORM refuse('number of tasks', many::text, 'at most 1000 in one batch');
    END IF;
    plain.max_attempts := 3;
    BEGIN
        FOR one IN SELECT e FROM json_array_elements(tasks) e LOOP
            place := place + 1;
            IF json_typeof(one) <> 'object' THEN
                PERFORM refuse('task', quoted(one::text), 'an object');
            END IF;
            SELECT k INTO unknown FROM json_object_keys(one) k WHERE k NOT IN (
                'kind', 'payload', 'queue', 'namespace', 'priority', 'key', 'on_conflict', 'run_at', 'delay', 'lane', 'lane_limit',
                'entity', 'lane_strict', 'require_entity', 'timeout', 'tags', 'max_attempts', 'retry', 'ageing_per_hour',
                'ageing_per_retry', 'actor', 'id', 'traceparent') LIMIT 1;
            IF FOUND THEN
                PERFORM refuse('member', quoted(unknown), 'the name of a parameter of submit');
            END IF;
            asked := asked || json_populate_record(plain, one);
        END LOOP;
    EXCEPTION WHEN data_exception THEN
        GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
        PERFORM refuse_one(SQLERRM || coalesce(' (' || nullif(detail, '') || ')', ''), '22023', place, many);
    END;
    RETURN QUERY SELECT a.id, a.created FROM admit(asked) a;
END $$;
