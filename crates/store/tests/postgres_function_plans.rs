//! Every statement inside the SQL functions reads a few rows by an index, however many tasks there are: with
//! plans that a connection made while the store was empty, with new ones on tables that have grown since the
//! server last looked, and on analysed tables.
//!
//! The server tells the plan of every statement that a call runs, and how many rows it read (`auto_explain`).
//! A statement that reads a table and that no call here runs fails the test too. `WINDLASS_FINISHED_TASKS`
//! says how many tasks the store has; default 50,000.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, missing_docs)]

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_postgres::{AsyncMessage, Client, NoTls};
use windlass_core::WorkflowId;
use windlass_store::conformance::{ad_hoc, definition_of};
use windlass_store::postgres::Options;
use windlass_store::{Store, Writes};
use windlass_testbed::postgres::Server;

/// The tables that grow.
const LARGE: [&str; 12] = [
    "tasks",
    "live",
    "ended",
    "history_rows",
    "notes",
    "entities",
    "workflows",
    "workflow_history",
    "inputs",
    "messages",
    "events",
    "definitions",
];

/// More rows of one table than any call here has reason to read.
const MOST_ROWS: f64 = 150.0;

/// More pages than any statement here has reason to look at.
const MOST_PAGES: f64 = 1500.0;

/// What the calls act on. `{flow}` is a workflow in process, `{done}` one that is complete, `{step}` a step
/// of the first.
const CALLS: [&str; 57] = [
    "SELECT submit('k', '1')",
    "SELECT submit('k', '1', key => 'one', tags => '{a,b}', actor => 'ada')",
    "SELECT submit('k', '1', key => 'one')",
    "SELECT submit('k', '1', key => 'one', on_conflict => 'reject') -- fails",
    "SELECT submit('k', '1', id => (SELECT submit('k', '1'))) -- fails",
    "SELECT submit('k', '1', delay => '1 hour')",
    "SELECT submit('k', '1', lane => 'narrow'), submit('k', '1', lane => 'narrow')",
    "INSERT INTO entities VALUES ('default', 'planner:42')",
    "SELECT submit('k', '1', entity => 'planner:42', require_entity => true)",
    "SELECT submit('k', '1', entity => 'planner:43', require_entity => true) -- fails",
    "SELECT submit_many('[{\"kind\": \"k\", \"key\": \"one\"}, {\"kind\": \"new\", \"lane\": \"narrow\"}, {\"kind\": \"k\", \"key\": \"one\"}]')",
    "UPDATE listening SET until = clock_timestamp() + interval '1 hour'",
    "SELECT submit('k', '1')",
    "SELECT submit('k', '1', id => '01900000-0000-7000-8000-000000020000')",
    "DELETE FROM history_rows WHERE task = (SELECT max(task) FROM history_rows) -- fails",
    "INSERT INTO workflow_history VALUES (0, 1, 'pending', now())",
    "DELETE FROM workflow_history WHERE workflow = 0",
    "INSERT INTO workflows (id, namespace, name, version, definition, priority, nesting, created_at, state, paused, waiting, nested, active,
        timed, done, skipped, cancelled, failed, updated_at, entries, retries, rank)
        VALUES (gen_random_uuid(), 'default', 'new', '1', 1, 0, 0, now(), 'pending', false, 0, 0, 0, 0, 0, 0, 0, 0, now(), 1, 0, 0)",
    "SELECT * FROM tasker.get_step_readiness_status_batch(ARRAY['{flow}'::uuid])",
    "SELECT * FROM tasker.get_step_readiness_status('{flow}')",
    "SELECT * FROM tasker.get_ready_steps('{flow}')",
    "SELECT * FROM tasker.get_task_execution_context('{flow}')",
    "SELECT * FROM tasker.get_task_ready_info('{flow}')",
    "SELECT * FROM tasker.get_current_task_state('{flow}')",
    "SELECT * FROM tasker.get_next_ready_tasks(5)",
    "SELECT * FROM tasker.get_next_ready_task()",
    "SELECT * FROM tasker.get_system_health_counts()",
    "SELECT * FROM tasker.get_analytics_metrics()",
    "SELECT * FROM tasker.get_slowest_steps()",
    "SELECT * FROM tasker.get_slowest_steps_instances()",
    "SELECT * FROM tasker.get_slowest_tasks()",
    "SELECT * FROM tasker.get_slowest_tasks_instances()",
    "SELECT * FROM tasker.calculate_dependency_levels('{flow}')",
    "SELECT * FROM tasker.get_step_transitive_dependencies('{step}')",
    "SELECT tasker.check_step_dependencies('{step}')",
    "SELECT tasker.calculate_step_depth('{step}')",
    "SELECT tasker.detect_cycle('{step}', '{flow}')",
    "SELECT tasker.set_step_backoff_atomic('{step}', 5)",
    "SELECT * FROM tasker.tasks WHERE task_uuid = '{flow}'",
    "SELECT * FROM tasker.workflow_steps WHERE task_uuid = '{flow}'",
    "SELECT * FROM tasker.workflow_steps WHERE workflow_step_uuid = '{step}'",
    "SELECT * FROM tasker.workflow_step_edges WHERE task_uuid = '{flow}'",
    "SELECT * FROM tasker.task_transitions WHERE task_uuid = '{flow}'",
    "SELECT * FROM tasker.workflow_step_transitions WHERE workflow_step_uuid = '{step}'",
    "SELECT tasker.finalize_task_completion('{flow}')",
    "SELECT tasker.finalize_task_completion('{done}')",
    "SELECT tasker.transition_task_state_atomic('{flow}', 'steps_in_process', 'cancelled', NULL)",
    "SELECT tasker.ensure_task_queue('letters'), tasker.ensure_task_queue('rare')",
    "SELECT tasker.pgmq_send_with_notify('letters', '1'), tasker.pgmq_send_with_notify('letters', '2', 3600)",
    "SELECT * FROM tasker.pgmq_read('letters', 30, 2)",
    "SELECT * FROM tasker.pgmq_read_specific_message('letters', 5, 30)",
    "SELECT tasker.pgmq_extend_vt_specific_message('letters', 5, 30)",
    "SELECT tasker.pgmq_delete_specific_message('letters', 5)",
    "SELECT * FROM tasker.get_queue_statistics('rare')",
    "UPDATE messages SET vt = clock_timestamp() WHERE msg_id = (SELECT max(msg_id) FROM messages)",
    "SELECT tasker.pgmq_announce_due()",
    "SELECT switch_feed(false)",
];

/// A plan as the server told it, with the call that it was made for.
struct Plan {
    call: String,
    told: Value,
}

impl Plan {
    fn statement(&self) -> &str {
        self.told["Query Text"].as_str().unwrap()
    }
}

/// A connection that is told the plan of every statement.
struct Caller {
    client: Client,
    told: UnboundedReceiver<String>,
}

impl Caller {
    /// `None` if the server cannot tell.
    async fn new(server: &Server) -> Option<Self> {
        let (client, mut connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
        let (tell, told) = unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notice(notice) = message {
                    let _ = tell.send(notice.message().to_owned());
                }
            }
        });
        client.batch_execute("LOAD 'auto_explain'").await.ok()?;
        let settings = "SET search_path = windlass; SET client_min_messages = 'notice'; SET auto_explain.log_level = 'notice';
            SET auto_explain.log_min_duration = 0; SET auto_explain.log_nested_statements = on; SET auto_explain.log_analyze = on;
            SET auto_explain.log_timing = off; SET auto_explain.log_buffers = on; SET auto_explain.log_format = 'json'";
        client.batch_execute(settings).await.unwrap();
        Some(Self { client, told })
    }

    /// Makes all calls, and then once more, since the first time reads the server's catalogue as well.
    /// Returns the plans of the second time.
    async fn calls(&mut self, flow: WorkflowId, done: &str) -> Vec<Plan> {
        self.calls_once(flow, done).await;
        self.calls_once(flow, done).await
    }

    /// Makes all calls in one transaction, which is rolled back, and returns the plans.
    async fn calls_once(&mut self, flow: WorkflowId, done: &str) -> Vec<Plan> {
        let mut plans = Vec::new();
        self.client.batch_execute("BEGIN").await.unwrap();
        for call in CALLS {
            let step = flow.step(3).to_string();
            let sql =
                call.replace("{flow}", &flow.to_string()).replace("{done}", done).replace("{step}", &step);
            self.client.batch_execute("SAVEPOINT before").await.unwrap();
            let called = self.client.batch_execute(&sql).await;
            assert_eq!(called.is_err(), sql.ends_with("-- fails"), "{sql}: {called:?}");
            if called.is_err() {
                self.client.batch_execute("ROLLBACK TO SAVEPOINT before").await.unwrap();
            }
            while let Ok(told) = self.told.try_recv() {
                if let Some((_, plan)) = told.split_once("plan:\n") {
                    let told = serde_json::from_str(plan).unwrap_or_else(|error| panic!("{error}: {plan}"));
                    plans.push(Plan { call: sql.clone(), told });
                }
            }
        }
        self.client.batch_execute("ROLLBACK").await.unwrap();
        plans
    }
}

#[tokio::test]
async fn statements_in_functions_read_a_few_rows() {
    let server = Server::builder().setting("fsync", "off").setting("autovacuum", "off").start().unwrap();
    let store = Options::new(&server.url()).unwrap().open().await.unwrap();
    let Some(mut early) = Caller::new(&server).await else {
        println!("left out: this PostgreSQL has no auto_explain");
        return;
    };
    let flow = definition_of(json!({ "name": "one", "steps": {
        "a": {}, "b": { "needs": ["a"] }, "c": { "needs": ["a"] }, "d": { "needs": ["b", "c"] },
    }}));
    let new = ad_hoc(1, flow);
    let flow = new.id;
    let done = "00000001-0000-7000-8000-000000000000";
    check("empty", &early.calls(flow, done).await);
    store.start(new).await.unwrap();
    let finished =
        std::env::var("WINDLASS_FINISHED_TASKS").map_or(50_000, |many| many.parse::<u32>().unwrap());
    server.sql(&FULL.replace("{flows}", &(finished / 5).to_string())).unwrap();
    check("full, with plans from when it was empty", &early.calls(flow, done).await);
    let mut late = Caller::new(&server).await.unwrap();
    check("full and not analysed", &late.calls(flow, done).await);
    server.sql("ANALYZE").unwrap();
    check("full and analysed, with a connection that is older", &early.calls(flow, done).await);
    let plans = Caller::new(&server).await.unwrap().calls(flow, done).await;
    check("full and analysed", &plans);
    let missing = not_run(&server, &plans);
    assert!(missing.is_empty(), "no call runs these statements:\n{}", missing.join("\n"));
    store.close().await.unwrap();
}

/// Fails with all plans that read too much.
fn check(when: &str, plans: &[Plan]) {
    assert!(plans.len() > CALLS.len());
    let mut bad = Vec::new();
    for plan in plans.iter().filter(|plan| plan.statement() != plan.call) {
        let mut faults = Vec::new();
        look(&plan.told["Plan"], &mut faults);
        let pages = &plan.told["Plan"];
        let pages =
            ["Shared Hit Blocks", "Shared Read Blocks"].map(|name| pages[name].as_f64().unwrap_or(0.0));
        if pages[0] + pages[1] > MOST_PAGES {
            faults.push(format!("looks at {} pages", pages[0] + pages[1]));
        }
        if !faults.is_empty() {
            bad.push(format!("{}\n    {}\n{:#}", plan.call, faults.join("; "), plan.told));
        }
    }
    assert!(
        bad.is_empty(),
        "when the store is {when}, {} statements read too much:\n{}",
        bad.len(),
        bad.join("\n")
    );
}

/// Looks for what a plan should not do, in a node and those below it.
fn look(node: &Value, faults: &mut Vec<String>) {
    let table = node["Relation Name"].as_str().unwrap_or_default();
    let kind = node["Node Type"].as_str().unwrap_or_default();
    if LARGE.contains(&table) && kind != "ModifyTable" {
        let number = |name: &str| node[name].as_f64().unwrap_or(0.0);
        let rows = number("Actual Rows")
            + number("Rows Removed by Filter")
            + number("Rows Removed by Index Recheck");
        if rows * number("Actual Loops") > MOST_ROWS {
            faults.push(format!("{kind} reads {} rows of {table}", rows * number("Actual Loops")));
        }
        if kind == "Seq Scan" {
            faults.push(format!("{kind} of {table}"));
        }
    }
    for below in node["Plans"].as_array().into_iter().flatten() {
        look(below, faults);
    }
}

/// Where the functions name a table in a statement that none of the plans is for.
fn not_run(server: &Server, plans: &[Plan]) -> Vec<String> {
    let run: BTreeSet<String> = plans.iter().map(|plan| plain(plan.statement())).collect();
    let functions = "SELECT json_agg(json_build_array(proname, prosrc)) FROM pg_proc
        WHERE pronamespace IN ('windlass'::regnamespace, 'tasker'::regnamespace) AND prosrc <> ''";
    let functions: Vec<(String, String)> = serde_json::from_str(&server.sql(functions).unwrap()).unwrap();
    let mut missing = Vec::new();
    for (name, source) in functions {
        // A function of one statement may have become part of its caller's.
        if !source.contains("BEGIN") {
            continue;
        }
        let source = plain(&source);
        for (at, _) in source.match_indices(' ') {
            let (before, rest) = (&source[..at], &source[at + 1..]);
            let is_named = ["FROM", "JOIN", "INTO", "UPDATE"].iter().any(|word| before.ends_with(word));
            let table = rest.trim_start_matches("\"windlass\".");
            let table = table.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
            if !is_named || !LARGE.contains(&table) {
                continue;
            }
            let end = ["; ", " THEN ", " LOOP "]
                .iter()
                .filter_map(|word| rest.find(word))
                .min()
                .unwrap_or(rest.len());
            let part: String = rest[..end].chars().take(80).collect();
            let part = part.trim_end_matches([';', ')']);
            if !run.iter().any(|statement| statement.contains(part)) {
                missing.push(format!("{name}: {part}"));
            }
        }
    }
    missing
}

/// Without comments, and with one space between words.
fn plain(sql: &str) -> String {
    let lines: Vec<&str> = sql.lines().map(|line| line.split("-- ").next().unwrap_or_default()).collect();
    lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A call costs what it costs alone, however many there were before it in the transaction.
#[tokio::test]
async fn many_submits_of_one_transaction_cost_the_same_each() {
    let server = Server::builder().setting("fsync", "off").start().unwrap();
    let store = Options::new(&server.url()).unwrap().open().await.unwrap();
    let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let calls = "DO $$ BEGIN FOR i IN 1..1000 LOOP PERFORM windlass.submit('a', '1'), windlass.submit('b', '1'); END LOOP; END $$";
    client.batch_execute("BEGIN").await.unwrap();
    let mut took = Vec::new();
    for _ in 0..6 {
        let begun = Instant::now();
        client.batch_execute(calls).await.unwrap();
        took.push(begun.elapsed());
    }
    client.batch_execute("COMMIT").await.unwrap();
    println!("2,000 calls of submit, six times in one transaction: {took:?}");
    let (first, last) = (*took[..2].iter().min().unwrap(), *took[4..].iter().min().unwrap());
    assert!(last < first * 2 + Duration::from_millis(50), "{took:?}");
    let counted =
        "SELECT kind, sum(tasks) FROM windlass.counts WHERE state = 'pending' GROUP BY kind ORDER BY kind";
    assert_eq!(server.sql(counted).unwrap(), "a|6000\nb|6000");
    store.close().await.unwrap();
}

/// What was counted since a savepoint goes with it, and what is counted after it is right.
#[tokio::test]
async fn counts_follow_savepoints() {
    let server = Server::builder().setting("fsync", "off").start().unwrap();
    let store = Options::new(&server.url()).unwrap().open().await.unwrap();
    let submits = "SELECT submit('a', '1'), submit('a', '1');";
    server
        .sql(&format!(
            "SET search_path = windlass; BEGIN; SAVEPOINT s; {submits} ROLLBACK TO s; {submits} SAVEPOINT s; {submits} \
             ROLLBACK TO s; {submits} RELEASE s; {submits} COMMIT; BEGIN; {submits} ROLLBACK; {submits}"
        ))
        .unwrap();
    let counted = "SELECT (SELECT sum(tasks) FROM windlass.counts), (SELECT count(*) FROM windlass.live)";
    assert_eq!(server.sql(counted).unwrap(), "8|8");
    store.close().await.unwrap();
}

/// Finished tasks from the day before yesterday: workflows of four steps, and as many lone tasks. Messages,
/// entities and a long lane.
const FULL: &str = "SET search_path = windlass;
    INSERT INTO workflows (id, namespace, name, version, definition, priority, nesting, created_at, state, paused, waiting, nested, active,
        timed, done, skipped, cancelled, failed, updated_at, finished_at, entries, retries, rank)
    SELECT (lpad(to_hex(n), 8, '0') || '-0000-7000-8000-000000000000')::uuid, 'default', 'old', '1', 1, 0, 0, t.at, 'complete', false,
        0, 0, 0, 0, 4, 0, 0, 0, t.at, t.at, 6, 0, 0 FROM generate_series(1, {flows}) n, (SELECT now() - interval '2 days' AS at) t;
    INSERT INTO inputs SELECT seq, 'null' FROM workflows ON CONFLICT DO NOTHING;
    INSERT INTO workflow_history SELECT seq, n, 'pending', created_at FROM workflows, generate_series(1, 4) n ON CONFLICT DO NOTHING;
    INSERT INTO tasks (id, namespace, queue, kind, priority, per_hour, per_retry, max_attempts, created_at, payload, is_step, key)
    SELECT step_id((lpad(to_hex(n), 8, '0') || '-0000-7000-8000-000000000000')::uuid, s), 'default', 'default', 'work', 0, 0, 0, 3,
        now() - interval '2 days', 'null', true, NULL FROM generate_series(1, {flows}) n, generate_series(0, 3) s;
    INSERT INTO tasks (id, namespace, queue, kind, priority, per_hour, per_retry, max_attempts, created_at, payload, key)
    SELECT gen_random_uuid(), 'default', 'default', 'k', 0, 0, 0, 3, now() - interval '2 days', 'null', 'key ' || n
    FROM generate_series(1, {flows}) n;
    INSERT INTO ended (seq, state, attempt, lease, worker, claimed_at, started_at, finished_at, updated_at, rank, entries, plain, result,
        is_step)
    SELECT seq, 'completed', 1, 1, 'w', created_at, created_at, created_at, created_at, 0, 4, true, 'null', is_step
    FROM tasks WHERE NOT EXISTS (SELECT FROM live l WHERE l.seq = tasks.seq);
    INSERT INTO history_rows SELECT seq, 1, 'scheduled', updated_at, 'submitted' FROM ended;
    INSERT INTO entities SELECT 'default', 'planner:' || n FROM generate_series(100, {flows}) n;
    INSERT INTO message_queues VALUES ('letters', now()), ('rare', now());
    INSERT INTO messages (queue, enqueued_at, delay, vt, announced, message)
    SELECT 'letters', now(), 0, now() - interval '1 hour', true, '1' FROM generate_series(1, {flows}) n;
    INSERT INTO tasks (id, namespace, queue, kind, priority, per_hour, per_retry, max_attempts, created_at, payload, lane, lane_limit, lane_strict)
    SELECT gen_random_uuid(), 'default', 'default', 'k', 0, 0, 0, 3, now(), 'null', 'narrow', 1, false FROM generate_series(1, {flows}) n;
    INSERT INTO live (seq, namespace, queue, kind, lane, lane_limit, state, attempt, lease, updated_at, slot, rank, entries, plain)
    SELECT seq, namespace, queue, kind, lane, lane_limit, 'pending', 0, 0, created_at, false, 0, 1, true FROM tasks WHERE lane = 'narrow'";
