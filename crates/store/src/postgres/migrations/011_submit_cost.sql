-- Submitting from SQL costs the same however many tasks there are, and the hundredth call of a transaction what the first costs.
-- `admit` looked up the ids of the new tasks by a join, for which the server read the whole table. Now it chooses the ids itself.
-- Refusals of max_attempts say what SQL calls no limit.

-- Fills in what was left out, and refuses what cannot be accepted. The lane is then the one that is stored.
CREATE OR REPLACE FUNCTION complete(t new_task) RETURNS new_task LANGUAGE plpgsql AS $$
DECLARE
    tag text;
BEGIN
    t.namespace := coalesce(t.namespace, 'default');
    t.queue := coalesce(t.queue, 'default');
    t.payload := coalesce(t.payload, 'null');
    t.priority := coalesce(t.priority, 0);
    t.on_conflict := coalesce(t.on_conflict, 'return');
    t.lane_strict := coalesce(t.lane_strict, false);
    t.require_entity := coalesce(t.require_entity, false);
    t.ageing_per_hour := coalesce(t.ageing_per_hour, 0);
    t.ageing_per_retry := coalesce(t.ageing_per_retry, 0);
    -- A call costs more than a look: most tasks need none of these.
    IF (concat_ws(' ', t.kind, t.namespace, t.queue) COLLATE "C" ~ '^[A-Za-z0-9._:-]+ [A-Za-z0-9._:-]+ [A-Za-z0-9._:-]+$'
        AND greatest(length(t.kind), length(t.namespace), length(t.queue)) <= 128) IS NOT TRUE
    THEN
        PERFORM check_name('kind', t.kind), check_name('namespace', t.namespace), check_name('queue', t.queue);
    END IF;
    IF octet_length(t.payload::text) > 256 THEN
        PERFORM check_payload(t.payload);
    END IF;
    IF t.on_conflict NOT IN ('return', 'reject') THEN
        PERFORM refuse('on_conflict', quoted(t.on_conflict), '"return" or "reject"');
    ELSIF t.run_at IS NOT NULL AND t.delay IS NOT NULL THEN
        PERFORM refuse('delay', quoted(t.delay::text), 'either run_at or delay, not both');
    ELSIF t.delay < interval '0' THEN
        PERFORM refuse('delay', quoted(t.delay::text), 'zero or more');
    END IF;
    IF t.entity IS NOT NULL THEN
        IF t.entity COLLATE "C" !~ '^[A-Za-z0-9._-]+:.' OR octet_length(t.entity) > 512 THEN
            PERFORM refuse('entity', quoted(t.entity), 'type:id, such as planner:42');
        ELSIF t.lane IS NOT NULL THEN
            PERFORM refuse('lane key', quoted(t.lane), 'either a lane or an entity, not both');
        ELSIF t.lane_limit <> 1 THEN
            PERFORM refuse('lane limit', t.lane_limit::text, '1, which is what an entity''s is, or nothing');
        END IF;
        t.lane := '@' || t.entity;
        t.lane_limit := 1;
    ELSIF t.lane IS NOT NULL THEN
        t.lane_limit := coalesce(t.lane_limit, 1);
        PERFORM check_key('lane key', t.lane, 512);
        IF starts_with(t.lane, '@') THEN
            PERFORM refuse('lane key', quoted(t.lane), 'a key that does not start with @');
        ELSIF t.lane_limit NOT BETWEEN 1 AND 100000 THEN
            PERFORM refuse('lane limit', t.lane_limit::text, '1 to 100000');
        END IF;
    ELSIF t.lane_limit IS NOT NULL OR t.lane_strict THEN
        PERFORM refuse('lane key', NULL, 'a lane or an entity, if lane_limit or lane_strict is given');
    ELSE
        t.lane_strict := NULL;
    END IF;
    IF t.key IS NOT NULL THEN
        PERFORM check_key('idempotency key', t.key, 512);
    END IF;
    IF cardinality(t.tags) > 32 THEN
        PERFORM refuse('number of tags', cardinality(t.tags)::text, 'at most 32');
    END IF;
    IF t.tags IS NOT NULL THEN
        FOREACH tag IN ARRAY t.tags LOOP
            PERFORM check_key('tag', tag, 128);
        END LOOP;
    END IF;
    IF t.max_attempts NOT BETWEEN 1 AND 1000000 THEN
        PERFORM refuse('max_attempts', t.max_attempts::text, '1 to 1000000, or NULL for no limit');
    ELSIF extract(epoch FROM t.timeout) NOT BETWEEN 0.001 AND 31536000 THEN
        PERFORM refuse('timeout', quoted(t.timeout::text), '1 ms to 365 days');
    ELSIF least(t.ageing_per_hour, t.ageing_per_retry) < 0
        OR greatest(t.ageing_per_hour, t.ageing_per_retry) > 1000000000
    THEN
        PERFORM refuse('ageing', format('%s and %s', t.ageing_per_hour, t.ageing_per_retry),
            '0 to 1,000,000,000 thousandths of a point');
    ELSIF t.retry IS NOT NULL THEN
        t.retry := retry_policy(t.retry);
    END IF;
    IF octet_length(t.actor) > 16384 THEN
        t.actor := stored_text(t.actor);
    END IF;
    RETURN t;
END $$;

-- Adds to the number of tasks of one sort. A caller's transaction may last, so that it must not hold what a program's connection
-- would wait for: those use the parts below 64, these the others, whichever nobody holds.
-- A transaction that counts again goes straight to the row that it wrote last: on the way by the index it would meet every version of
-- that row which it has left behind. The place of the row is kept in a setting of the transaction, one of 64 by the sort, and a
-- rollback to a savepoint takes the setting back as well. A place that is not that of the row any more finds nothing.
CREATE OR REPLACE FUNCTION count_more(c counts) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    setting constant text := 'windlass.counted_{schema}_'
        || (hashtext(concat_ws(' ', c.namespace, c.queue, c.kind, c.is_step, c.state)) & 63);
    place   tid := nullif(current_setting(setting, true), '')::tid;
BEGIN
    IF place IS NOT NULL THEN
        UPDATE counts SET tasks = counts.tasks + c.tasks
        WHERE ctid = place AND part >= 64
            AND (namespace, queue, kind, is_step, state) = (c.namespace, c.queue, c.kind, c.is_step, c.state)
        RETURNING ctid INTO place;
    END IF;
    IF place IS NULL THEN
        UPDATE counts SET tasks = counts.tasks + c.tasks
        WHERE (namespace, queue, kind, is_step, state) = (c.namespace, c.queue, c.kind, c.is_step, c.state) AND part = (
            SELECT part FROM counts
            WHERE (namespace, queue, kind, is_step, state) = (c.namespace, c.queue, c.kind, c.is_step, c.state) AND part >= 64
            ORDER BY part LIMIT 1 FOR UPDATE SKIP LOCKED)
        RETURNING ctid INTO place;
    END IF;
    IF place IS NULL THEN
        -- One that no other connection chooses at the same time, since all begin at their own number.
        INSERT INTO counts AS old SELECT c.namespace, c.queue, c.kind, c.is_step, c.state, free.part, c.tasks
        FROM (SELECT 64 + (pg_backend_pid() + generate_series(0, 10000) * 7919) % 32000 AS part) free
        WHERE NOT EXISTS (
            SELECT FROM counts WHERE (namespace, queue, kind, is_step, state) = (c.namespace, c.queue, c.kind, c.is_step, c.state)
                AND counts.part = free.part)
        LIMIT 1
        ON CONFLICT (namespace, queue, kind, is_step, state, part) DO UPDATE SET tasks = old.tasks + excluded.tasks
        RETURNING ctid INTO place;
    END IF;
    PERFORM set_config(setting, place::text, true);
END $$;

-- Gives free slots of lanes to those who wait for one, in submit order, as sql/fill.sql does; whether there were any. The caller has the
-- lanes' locks.
-- The lane is compared in both directions, and never for equality, so that only the index of those who wait has the order that is
-- asked for: by the key of the table, every task that is not of the lane would be read first.
CREATE OR REPLACE FUNCTION fill_lanes(namespaces text[], keys text[]) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    given  bigint;
    opened boolean := false;
BEGIN
    LOOP
        WITH line AS (
            SELECT p.at, bool_and(c.taken + p.place <= p.lane_limit) OVER (
                PARTITION BY n.namespace, n.lane ORDER BY p.place) AS may
            FROM (SELECT DISTINCT u.namespace, u.lane FROM unnest(namespaces, keys) AS u (namespace, lane)) n
            CROSS JOIN LATERAL (
                SELECT count(*) AS taken FROM live l WHERE l.namespace = n.namespace AND l.lane = n.lane AND l.slot
            ) c
            CROSS JOIN LATERAL (
                SELECT w.*, row_number() OVER (ORDER BY w.seq) AS place FROM (
                    SELECT l.ctid AS at, l.seq, l.lane_limit FROM live l
                    WHERE (l.namespace, l.lane) >= (n.namespace, n.lane) AND (l.namespace, l.lane) <= (n.namespace, n.lane)
                        AND l.lane IS NOT NULL AND NOT l.slot AND l.state = 'pending'
                    ORDER BY l.namespace, l.lane, l.seq LIMIT 100
                ) w
            ) p
        ), filled AS (
            UPDATE live SET slot = true WHERE ctid = ANY (ARRAY(SELECT at FROM line WHERE may)) RETURNING 1
        )
        SELECT count(*) INTO given FROM filled;
        opened := opened OR given > 0;
        EXIT WHEN given < 100;
    END LOOP;
    RETURN opened;
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
    ids       uuid[];
    known     uuid[] := array_fill(NULL::uuid, ARRAY[many]);  -- those that are there already
    todo      integer[];
    added     bigint[];
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
    ids := ARRAY(SELECT coalesce((asked[p]).id, fresh_id(now)) FROM generate_series(1, many) p);
    todo := ARRAY(SELECT generate_series(1, many));
    LOOP
        -- By key, so that two who submit the same keys wait for each other in one order. If another submits one at the same time,
        -- this waits for what becomes of it; then there is something to look at.
        WITH made AS (
            INSERT INTO tasks (
                seq, id, namespace, queue, kind, priority, per_hour, per_retry, key, lane, lane_limit, lane_strict, timeout, tags,
                max_attempts, retry, created_at, actor, payload, traceparent)
            SELECT seqs[a.place], ids[a.place], a.namespace, a.queue, a.kind, a.priority, a.ageing_per_hour,
                a.ageing_per_retry, a.key, a.lane, a.lane_limit, a.lane_strict, trunc(extract(epoch FROM a.timeout) * 1000000),
                CASE WHEN cardinality(a.tags) > 0 THEN array_to_json(ARRAY(SELECT unnest(a.tags))) END,
                a.max_attempts, a.retry, now, a.actor, a.payload, a.traceparent
            FROM (SELECT u.place, (asked[u.place]).* FROM unnest(todo) AS u (place)) a
            ORDER BY a.namespace COLLATE "C", a.kind COLLATE "C", a.key COLLATE "C", a.place
            ON CONFLICT DO NOTHING RETURNING seq
        )
        SELECT array_agg(m.seq) INTO added FROM made m;
        EXIT WHEN cardinality(added) = cardinality(todo);
        todo := ARRAY(SELECT p FROM unnest(todo) p LEFT JOIN unnest(added) s ON s = seqs[p] WHERE s IS NULL ORDER BY p);
        FOR t IN
            SELECT u.place, (asked[u.place]).* FROM unnest(todo) AS u (place)
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
        todo := ARRAY(SELECT p FROM unnest(todo) p WHERE known[p] IS NULL);
        EXIT WHEN todo = '{}';
    END LOOP;
    -- A subquery that gives a value is never turned into a join, which might read all entities.
    SELECT a.place, a.entity INTO t FROM (SELECT p AS place, (asked[p]).* FROM generate_series(1, many) p) a
    WHERE a.require_entity AND a.entity IS NOT NULL AND known[a.place] IS NULL
        AND (SELECT true FROM entities e WHERE e.namespace = a.namespace AND e.entity = a.entity) IS NULL
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
    RETURN QUERY SELECT coalesce(known[p], ids[p]), known[p] IS NULL FROM generate_series(1, many) p ORDER BY p;
END $$;

-- Submits one task and returns its id; that of the task which has the key already, if there is one. NULL is the default of every
-- parameter but max_attempts, where it is no limit.
CREATE OR REPLACE FUNCTION submit(
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
) RETURNS uuid LANGUAGE plpgsql SECURITY DEFINER
-- A temporary table of the caller must not stand in for one of these. Every table has its index, so that no plan need be made twice.
SET search_path = "{schema}", pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
BEGIN
    RETURN (SELECT a.id FROM admit(ARRAY[ROW (
        kind, payload, queue, namespace, priority, key, on_conflict, run_at, delay, lane, lane_limit, entity, lane_strict,
        require_entity, timeout, tags, max_attempts, retry, ageing_per_hour, ageing_per_retry, actor, id, traceparent
    )::new_task]) a);
END $$;

ALTER FUNCTION submit_many(json) SET jit = off;

-- A reader of messages looks up each by its key, and reads no others.
ALTER FUNCTION {prefix}tasker.pgmq_read(text, integer, integer) SET enable_mergejoin = off;
ALTER FUNCTION {prefix}tasker.pgmq_read(text, integer, integer) SET enable_hashjoin = off;
ALTER FUNCTION edges_of(bigint) SET enable_seqscan = off;
