-- A workflow reserves the ids of its steps and items: no other task can be submitted with one of them.

-- The workflow that reserves this id for one of its steps or items, if that workflow exists; NULL if no step or item can have this id.
-- Of the last 34 bits of an id, the first 17 number the step, from 1 to 100000, and the others the item.
CREATE FUNCTION reserving(task uuid) RETURNS uuid LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT CASE WHEN ('x' || substr(task::text, 28, 5))::bit(20)::integer >> 1 & 131071 BETWEEN 1 AND 100000 THEN
        (left(task::text, 27) || to_hex(('x' || substr(task::text, 28, 1))::bit(4)::integer & 12) || '00000000')::uuid
    END
$$;

-- A UUID of version 7 that no step or item of a workflow can have: of its last 34 bits, the first three are ones.
CREATE OR REPLACE FUNCTION fresh_id(now timestamptz) RETURNS uuid LANGUAGE sql AS $$
    SELECT encode(set_bit(set_bit(set_bit(set_bit(set_bit(overlay(
        uuid_send(gen_random_uuid())
        PLACING substring(int8send(floor(extract(epoch FROM now) * 1000)::bigint) FROM 3) FROM 1 FOR 6
    ), 52, 1), 53, 1), 88, 1), 89, 1), 103, 1), 'hex')::uuid
$$;

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
    looks     boolean := false;  -- for workflows that reserve ids of these tasks
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
            looks := looks OR reserving((asked[place]).id) IS NOT NULL;
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
    IF looks THEN
        SELECT a.place, a.id, a.workflow INTO t
        FROM (SELECT p AS place, ids[p] AS id, reserving(ids[p]) AS workflow FROM generate_series(1, many) p) a
        WHERE known[a.place] IS NULL AND (SELECT true FROM workflows w WHERE w.id = a.workflow) IS NOT NULL
        ORDER BY a.place LIMIT 1;
        IF FOUND THEN
            refused := format('the id %s belongs to the workflow %s; submit the task with another id', t.id, t.workflow);
            PERFORM refuse_one(refused, '23505', t.place, many);
        END IF;
    END IF;
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
