//! Document 002 in SQL, the part that reads: every function and view gives what the store and the core say,
//! about random workflows in random states.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, missing_docs)]

#[path = "tasker/answers.rs"]
mod answers;
#[path = "tasker/world.rs"]
mod world;

use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::types::ToSql;
use windlass_core::{StepBackoff, Timestamp};
use windlass_store::Store;
use windlass_store::conformance::{ad_hoc, definition_of};

use world::World;

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn seed() -> u64 {
    let given = std::env::var("WINDLASS_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        u64::try_from(now.as_micros()).unwrap()
    });
    println!("WINDLASS_SEED={seed}");
    seed
}

/// Issue 6: a test compares every function with the Rust answer on random workflows in random states.
#[test]
fn sql_answers_as_the_store_does() {
    let seed = seed();
    runtime().block_on(async {
        let mut world = World::new(seed).await;
        for round in 0..20 {
            for _ in 0..16 {
                world.act().await;
            }
            let middle = world.store.now().await.unwrap();
            for _ in 0..3 {
                if let Some(id) = world.any() {
                    answers::workflow(&mut world, id).await;
                }
            }
            answers::whole(&world).await;
            if round % 10 == 9 {
                answers::slowest(&world, None).await;
                world.act().await;
                answers::slowest(&world, Some(middle)).await;
                answers::views(&world).await;
            }
        }
        for id in world.workflows.clone() {
            answers::workflow(&mut world, id).await;
        }
        println!("{}", world.row("SELECT * FROM get_system_health_counts()").await);
        assert!(world.workflows.len() > 10);
    });
}

/// 2.10, 2.11, C31, C43: seconds by attempts, an explicit wait that is not cut, and no number that is too
/// large.
#[test]
fn waits_are_those_of_the_document() {
    runtime().block_on(async {
        let world = World::new(1).await;
        let mut waits = Vec::new();
        for attempts in [1, 2, 3, 4, 5, 6, 7, 31, i32::MAX] {
            let sql = format!(
                "extract(epoch FROM calculate_step_next_retry_time(NULL, NULL, 'epoch', {attempts}))::integer"
            );
            waits.push(world.value(&sql).await.as_i64().unwrap());
            let delay = world.value(&format!("calculate_backoff_delay({attempts})")).await;
            assert_eq!(delay.as_f64().unwrap(), f64::from(i32::try_from(*waits.last().unwrap()).unwrap()));
        }
        assert_eq!(waits, [2, 4, 8, 16, 32, 60, 60, 60, 60]);
        for (call, expected) in [
            ("calculate_step_next_retry_time(300, 'epoch', 'epoch', 1) = to_timestamp(300)", json!(true)),
            ("calculate_step_next_retry_time(300, NULL, 'epoch', 1) = to_timestamp(2)", json!(true)),
            ("calculate_step_next_retry_time(NULL, 'epoch', 'epoch', NULL) = to_timestamp(2)", json!(true)),
            (
                "calculate_step_next_retry_time(NULL, NULL, 'epoch', 3, 20, 3.0) = to_timestamp(20)",
                json!(true),
            ),
            (
                "calculate_step_next_retry_time(NULL, NULL, 'epoch', 2, 20, 3.0) = to_timestamp(9)",
                json!(true),
            ),
            (
                "calculate_step_next_retry_time(NULL, NULL, 'epoch', -3, -20, -3.0) = to_timestamp(0)",
                json!(true),
            ),
            (
                "calculate_step_next_retry_time(NULL, NULL, 'epoch', 7, NULL, NULL) = to_timestamp(60)",
                json!(true),
            ),
            ("calculate_step_next_retry_time(-300, 'epoch', 'epoch', 1) = to_timestamp(0)", json!(true)),
            ("calculate_step_next_retry_time(NULL, 'epoch', NULL, 3)", Value::Null),
            ("calculate_backoff_delay(0)", json!(0)),
            ("calculate_backoff_delay(NULL)", json!(0)),
            ("calculate_backoff_delay(2, 5)", json!(20)),
            ("calculate_backoff_delay(2, base_delay => 50)", json!(60)),
        ] {
            assert_eq!(world.value(call).await, expected, "{call}");
        }
    });
}

/// 2.10, C43: the formulas of the core and of SQL give the same, with numbers of chance and with the largest
/// there are.
#[test]
fn waits_are_those_of_the_core() {
    let seed = seed();
    runtime().block_on(async {
        let mut world = World::new(seed).await;
        let next = world
            .client
            .prepare(
                "SELECT (extract(epoch FROM calculate_step_next_retry_time($1::integer, $2::text::timestamptz,
                    $3::text::timestamptz, $4::integer, $5::integer, $6::text::numeric)) * 1000000)::bigint",
            )
            .await
            .unwrap();
        let delay = "SELECT (calculate_backoff_delay($1::integer, $2::bigint * 0.000001) * 1000000)::bigint";
        let delay = world.client.prepare(delay).await.unwrap();
        let (mut asked_for, mut grown) = (0, 0);
        for _ in 0..2000 {
            let random = &mut world.random;
            let small = i32::try_from(random.below(60)).unwrap();
            let attempts =
                random.pick(&[None, Some(small), Some(small), Some(small), Some(1000), Some(i32::MAX)]);
            let asked = random.pick(&[None, None, Some(small), Some(-small), Some(i32::MIN), Some(i32::MAX)]);
            let max = random.pick(&[0, 1, small, 60, 60, 3600, i32::MAX]);
            let multiplier = random
                .pick(&["-2", "0", "0.5", "1", "1.1", "1.5", "2", "2", "2.5", "3", "10", "1000", "1e300"]);
            let mut moment = || {
                let some =
                    Timestamp::from_micros(i64::try_from(random.below(4_000_000_000_000_000)).unwrap());
                random.pick(&[None, Some(some), Some(some), Some(Timestamp::MIN), Some(Timestamp::MAX)])
            };
            let (last, failed) = (moment(), moment());
            let seconds = |number: i32| Duration::from_secs(u64::try_from(number).unwrap_or(0));
            let number = |number: i32| u32::try_from(number).unwrap();
            let backoff = StepBackoff { max: seconds(max), multiplier: multiplier.parse().unwrap() };
            let expected = backoff.next_retry_time(asked.map(seconds), last, failed, attempts.map(number));
            let text = |moment: Option<Timestamp>| moment.map(|moment| moment.to_string());
            let values: [&(dyn ToSql + Sync); 6] =
                [&asked, &text(last), &text(failed), &attempts, &max, &multiplier];
            let found: Option<i64> = world.client.query_one(&next, &values).await.unwrap().get(0);
            let call = format!("{asked:?} {last:?} {failed:?} {attempts:?} {max} {multiplier}");
            // What is after the last moment that programs know is that moment.
            let found = found.map(Timestamp::from_micros);
            assert_eq!(found.is_some(), expected.is_some(), "{call}");
            if let (Some(found), Some(expected)) = (found, expected) {
                let apart = found.since(expected).max(expected.since(found));
                assert!(apart <= Duration::from_micros(1), "{call}: {found} and {expected}");
            }
            asked_for += u32::from(asked.is_some() && last.is_some());
            grown += u32::from(expected.is_some());
            let base = world.random.pick(&[0, 1, 700, 1_000_000, 59_999_999, 60_000_000, 1_i64 << 50]);
            let found: i64 = world.client.query_one(&delay, &[&attempts, &base]).await.unwrap().get(0);
            let expected = StepBackoff::delay(
                attempts.map_or(0, number),
                Duration::from_micros(u64::try_from(base).unwrap()),
            );
            assert_eq!(u128::try_from(found).unwrap(), expected.as_micros(), "{attempts:?} {base}");
        }
        assert!(asked_for > 100 && grown > 1000, "{asked_for} {grown}");
    });
}

/// 2.9, C32, C33: what must hold, each alone decides.
#[test]
fn readiness_follows_from_what_is_known() {
    runtime().block_on(async {
        let world = World::new(1).await;
        for (values, expected) in [
            ("'pending', false, false, true, true, true, NULL", true),
            ("'waiting_for_retry', false, false, true, true, true, now() - interval '1 s'", true),
            ("'waiting_for_retry', false, false, true, true, true, now() + interval '1 h'", false),
            ("'error', false, false, true, true, true, NULL", false),
            ("'in_progress', false, false, true, true, true, NULL", false),
            ("'complete', false, false, true, true, true, NULL", false),
            ("'pending', true, false, true, true, true, NULL", false),
            ("'pending', false, true, true, true, true, NULL", false),
            ("'pending', false, false, false, true, true, NULL", false),
            ("'pending', false, false, true, false, true, NULL", false),
            ("NULL, NULL, NULL, true, true, NULL, NULL", true),
        ] {
            let call = format!("evaluate_step_state_readiness({values})");
            assert_eq!(world.value(&call).await, json!(expected), "{call}");
        }
    });
}

/// What is not there has no answer, and no error.
#[test]
fn nothing_is_said_about_what_is_unknown() {
    runtime().block_on(async {
        let mut world = World::new(1).await;
        let unknown = "'01890a5d-ac96-774b-bcce-b30000000000'";
        for call in ["get_current_task_state", "check_step_dependencies", "calculate_step_depth"] {
            assert_eq!(world.value(&format!("{call}({unknown})")).await, Value::Null, "{call}");
        }
        assert_eq!(world.value(&format!("detect_cycle({unknown}, {unknown})")).await, json!(false));
        for call in [
            "get_step_readiness_status",
            "get_ready_steps",
            "get_task_execution_context",
            "get_task_ready_info",
            "calculate_dependency_levels",
            "get_step_transitive_dependencies",
        ] {
            assert!(world.rows(&format!("SELECT * FROM {call}({unknown})")).await.is_empty(), "{call}");
        }
        assert!(world.rows("SELECT * FROM get_next_ready_task()").await.is_empty());
        let health = world.row("SELECT * FROM get_system_health_counts()").await;
        assert_eq!((&health["total_tasks"], &health["total_steps"]), (&json!(0), &json!(0)));
        let metrics = world.row("SELECT * FROM get_analytics_metrics()").await;
        assert_eq!(metrics["system_health_score"].as_f64().unwrap(), 1.0, "2.16: nothing is all right");
        // A workflow of nothing is complete (C49).
        world.start(ad_hoc(1, definition_of(json!({ "name": "none", "steps": {} })))).await;
        let id = world.workflows[0];
        let context = world.row(&format!("SELECT * FROM get_task_execution_context('{id}')")).await;
        assert_eq!(
            (&context["execution_status"], &context["health_status"]),
            (&json!("all_complete"), &json!("unknown"))
        );
        assert_eq!(context["completion_percentage"].as_f64().unwrap(), 0.0);
    });
}

/// C53: as many steps as there are, not as many ways: a ladder of 38 steps has 524,286 of them.
#[test]
fn graphs_are_walked_by_edges_and_not_by_ways() {
    runtime().block_on(async {
        let mut world = World::new(1).await;
        let mut steps = serde_json::Map::new();
        for n in 0..38 {
            let before = (n / 2) * 2;
            let needs: Vec<String> =
                if n < 2 { Vec::new() } else { (before - 2..before).map(|n| format!("s{n}")).collect() };
            steps.insert(format!("s{n}"), json!({ "needs": needs }));
        }
        world.start(ad_hoc(1, definition_of(json!({ "name": "ladder", "steps": steps })))).await;
        let id = world.workflows[0];
        let sql = format!("SELECT * FROM calculate_dependency_levels('{id}')");
        let levels: Vec<_> =
            world.rows(&sql).await.iter().map(|row| row["dependency_level"].as_i64().unwrap()).collect();
        assert_eq!(levels, (0..38).map(|n| n / 2).collect::<Vec<_>>());
        let number = |name: &str| name[1..].parse::<u32>().unwrap();
        let (record, tasks) = world.known(id).await;
        let last = (0..38).find(|n| *record.blueprint.step(*n).unwrap().name == *"s37").unwrap();
        let last = tasks.iter().map(|record| record.task.id).find(|task| *task == id.step(last)).unwrap();
        let sql = format!("SELECT * FROM get_step_transitive_dependencies('{last}')");
        let rows = world.rows(&sql).await;
        assert_eq!(rows.len(), 36);
        for row in rows {
            let distance = 18 - number(row["step_name"].as_str().unwrap()) / 2;
            assert_eq!(row["distance"], json!(distance), "{row}");
        }
    });
}

/// C44: the older, and the more often retried, the higher; the order is that of computed priorities.
#[test]
fn what_is_ready_comes_by_computed_priority() {
    let seed = seed();
    runtime().block_on(async {
        let mut world = World::new(seed).await;
        for _ in 0..12 {
            let priority = i32::try_from(world.random.below(5)).unwrap();
            let flow = definition_of(json!({ "name": "one", "steps": { "a": {}, "b": {} } }));
            world.start(windlass_core::NewWorkflow { priority, ..ad_hoc(1, flow) }).await;
        }
        let rows = world.rows("SELECT * FROM get_next_ready_tasks(p_limit => 12)").await;
        assert_eq!(rows.len(), 12);
        let priorities: Vec<_> = rows.iter().map(|row| row["computed_priority"].as_f64().unwrap()).collect();
        assert!(priorities.is_sorted_by(|one, next| one >= next), "{priorities:?}");
        assert!(rows.iter().all(|row| row["ready_steps_count"] == json!(2)));
        let ids = |rows: &[Value]| rows.iter().map(|row| row["task_uuid"].clone()).collect::<Vec<_>>();
        for (call, many) in
            [("get_next_ready_tasks()", 5), ("get_next_ready_task()", 1), ("get_next_ready_tasks(0)", 0)]
        {
            let some = world.rows(&format!("SELECT * FROM {call}")).await;
            assert_eq!(ids(&some), ids(&rows[..many]), "{call}");
        }
    });
}

/// With the rights that the documentation names, and whatever the search path is.
#[test]
fn who_may_read_may_ask() {
    runtime().block_on(async {
        let mut world = World::new(1).await;
        let flow = definition_of(json!({ "name": "one", "steps": { "a": {}, "b": { "needs": ["a"] } } }));
        world.start(ad_hoc(1, flow)).await;
        let (id, schema) = (world.workflows[0], world.schema.clone());
        let grants = format!(
            "CREATE ROLE {schema}_reader;
            GRANT USAGE ON SCHEMA {schema}, {schema}_tasker TO {schema}_reader;
            GRANT SELECT ON ALL TABLES IN SCHEMA {schema}, {schema}_tasker TO {schema}_reader;
            SET ROLE {schema}_reader; SET search_path = ''"
        );
        world.client.batch_execute(&grants).await.unwrap();
        let (step, tasker) = (id.step(1), format!("{schema}_tasker"));
        for (asked, many) in [
            (format!("get_step_readiness_status('{id}')"), 2),
            (format!("get_ready_steps('{id}')"), 1),
            (format!("calculate_dependency_levels('{id}')"), 2),
            (format!("get_step_transitive_dependencies('{step}')"), 1),
            (format!("get_task_execution_context('{id}')"), 1),
            ("get_next_ready_tasks()".into(), 1),
            ("get_system_health_counts()".into(), 1),
            ("get_analytics_metrics()".into(), 1),
            ("get_slowest_steps()".into(), 0),
            ("get_slowest_tasks()".into(), 0),
            ("get_slowest_steps_instances()".into(), 0),
            ("get_slowest_tasks_instances()".into(), 0),
            ("tasks".into(), 1),
            ("workflow_steps".into(), 2),
            ("task_transitions".into(), 4),
            ("workflow_step_transitions".into(), 2),
            ("workflow_step_edges".into(), 1),
            ("task_namespaces".into(), 1),
            ("named_tasks".into(), 1),
            ("named_steps".into(), 2),
        ] {
            assert_eq!(world.rows(&format!("SELECT * FROM {tasker}.{asked}")).await.len(), many, "{asked}");
        }
        for (call, expected) in [
            (format!("check_step_dependencies('{step}')"), json!(false)),
            (format!("calculate_step_depth('{step}')"), json!(1)),
            (format!("detect_cycle('{step}', '{}')", id.step(0)), json!(true)),
            (format!("get_current_task_state('{id}')"), json!("steps_in_process")),
        ] {
            assert_eq!(world.value(&format!("{tasker}.{call}")).await, expected, "{call}");
        }
    });
}

/// The names in backticks of a cell of a table.
fn names(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// The rows of the tables of docs/document-002.md whose first column is called so: its names, and the tests.
fn rows_about<'a>(page: &'a str, what: &str) -> Vec<(Vec<&'a str>, &'a str)> {
    let (mut rows, mut is_wanted) = (Vec::new(), false);
    for line in page.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        match line.starts_with('|') {
            false => is_wanted = false,
            true if cells[0] == what => is_wanted = true,
            true if is_wanted && !line.starts_with("|---") => {
                assert_eq!(cells.len(), 4, "{line}");
                rows.push((names(cells[0]), cells[3]));
            }
            true => {}
        }
    }
    rows
}

/// Issue 6: a table with each function and view, and every row has a test. It lists what there is, with its
/// parameters, and nothing else.
#[test]
fn the_documentation_is_about_what_there_is() {
    let page = read("../../docs/document-002.md");
    let (functions, views) = (rows_about(&page, "function"), rows_about(&page, "view"));
    runtime().block_on(async {
        let world = World::new(1).await;
        let all = |rows: &[(Vec<&str>, &str)]| {
            let mut all: Vec<String> =
                rows.iter().flat_map(|(names, _)| names.iter().map(ToString::to_string)).collect();
            all.sort_unstable();
            all
        };
        let found = async |sql: &str| {
            let rows = world.client.query(sql, &[&format!("{}_tasker", world.schema)]).await.unwrap();
            let mut found: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
            found.sort_unstable();
            found
        };
        let sql = "SELECT p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')'
            FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = $1";
        let untyped = |declared: &String| {
            let (name, arguments) = declared.trim_end_matches(')').split_once('(').unwrap();
            let names: Vec<_> = arguments.split(", ").filter_map(|it| it.split(' ').next()).collect();
            format!("{name}({})", names.join(", "))
        };
        let mut told: Vec<String> = found(sql).await.iter().map(untyped).collect();
        told.sort_unstable();
        assert_eq!(all(&functions), told);
        let sql = "SELECT table_name::text FROM information_schema.views WHERE table_schema = $1";
        assert_eq!(all(&views), found(sql).await);
    });
    let sources: String = [
        "tests/postgres_tasker.rs",
        "tests/postgres_tasker_changes.rs",
        "tests/postgres_tasker_messages.rs",
        "../engine/tests/postgres_tasker.rs",
    ]
    .map(read)
    .concat();
    for (what, tests) in functions.iter().chain(&views) {
        let is_compared = tests.split([',', ';']).any(|test| test.trim() == "R");
        assert!(is_compared || !names(tests).is_empty(), "{what:?} has no test");
        for test in names(tests) {
            // A long name may be cut.
            let declared = match test.strip_suffix('…') {
                Some(beginning) => format!("fn {beginning}"),
                None => format!("fn {test}("),
            };
            assert!(sources.contains(&declared), "{what:?}: there is no test {test}");
        }
    }
}

/// A file of the repository.
fn read(path: &str) -> String {
    let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// What is asked about one workflow reads its rows and no others, whatever the server believes about the
/// sizes of tables; counts read none.
#[test]
fn questions_about_one_workflow_read_its_rows_only() {
    runtime().block_on(async {
        let mut world = World::new(1).await;
        let flow = definition_of(json!({ "name": "one", "steps": {
            "a": {}, "b": { "needs": ["a"] }, "c": { "needs": ["a"] }, "d": { "needs": ["b", "c"] },
        }}));
        world.start(ad_hoc(1, flow)).await;
        let (id, schema) = (world.workflows[0], world.schema.clone());
        world.client.batch_execute(&MANY.replace("{schema}", &schema)).await.unwrap();
        let step = id.step(3);
        for when in ["grown", "analysed"] {
            for asked in [
                format!("get_step_readiness_status('{id}')"),
                format!("get_ready_steps('{id}')"),
                format!("get_task_execution_context('{id}')"),
                format!("get_task_ready_info('{id}')"),
                format!("calculate_dependency_levels('{id}')"),
                format!("get_step_transitive_dependencies('{step}')"),
                format!("get_current_task_state('{id}')"),
                format!("check_step_dependencies('{step}')"),
                format!("calculate_step_depth('{step}')"),
                format!("detect_cycle('{step}', '{}')", id.step(0)),
                "get_next_ready_tasks(5)".into(),
                "get_system_health_counts()".into(),
                "get_analytics_metrics()".into(),
                format!("tasks WHERE task_uuid = '{id}'"),
                format!("workflow_steps WHERE task_uuid = '{id}'"),
                format!("workflow_steps WHERE workflow_step_uuid = '{step}'"),
                format!("workflow_step_edges WHERE task_uuid = '{id}'"),
                format!("workflow_step_edges WHERE to_step_uuid = '{step}'"),
                format!("task_transitions WHERE task_uuid = '{id}'"),
                format!("workflow_step_transitions WHERE workflow_step_uuid = '{step}'"),
            ] {
                world.client.batch_execute("BEGIN").await.unwrap();
                let before = rows_read(&world).await;
                let found = world.client.query(&format!("SELECT * FROM {asked}"), &[]).await.unwrap();
                assert!(!found.is_empty(), "{asked}");
                let read = rows_read(&world).await - before;
                world.client.batch_execute("ROLLBACK").await.unwrap();
                assert!(read <= 60, "{asked} reads {read} rows when tables are {when}");
            }
            world.client.batch_execute("ANALYZE").await.unwrap();
        }
    });
}

/// Rows of the tables that grow which this connection has read.
async fn rows_read(world: &World) -> i64 {
    let sql = "SELECT coalesce(sum(seq_tup_read + idx_tup_fetch), 0)::bigint FROM pg_stat_xact_user_tables
        WHERE schemaname = $1 AND relname IN ('workflows', 'tasks', 'live', 'ended', 'history_rows', 'workflow_history')";
    world.client.query_one(sql, &[&world.schema]).await.unwrap().get(0)
}

/// Five thousand workflows like the first, half of them over.
const MANY: &str = "
    CREATE FUNCTION pg_temp.flow(n bigint) RETURNS uuid LANGUAGE sql AS $$
        SELECT ('01900000-0000-7000-9' || substr(lpad(to_hex(n), 6, '0'), 1, 3) || '-' || substr(lpad(to_hex(n), 6, '0'), 4) || '000000000')::uuid
    $$;
    INSERT INTO {schema}.workflows (id, namespace, name, version, definition, priority, nesting, created_at, state, paused, waiting,
        nested, active, timed, done, skipped, cancelled, failed, updated_at, finished_at, entries, retries, rank)
    SELECT pg_temp.flow(n), namespace, name, version, definition, priority, nesting, created_at,
        CASE n % 2 WHEN 0 THEN 'complete' ELSE state END, paused, (n % 2) * 3, 0, n % 2, 0, (1 - n % 2) * 4, 0, 0, 0, updated_at,
        CASE n % 2 WHEN 0 THEN updated_at END, entries, retries, rank
    FROM {schema}.workflows, generate_series(1, 5000) n;
    INSERT INTO {schema}.tasks (id, namespace, queue, kind, priority, per_hour, per_retry, max_attempts, created_at, payload, is_step)
    SELECT {schema}.step_id(pg_temp.flow(n), step), namespace, queue, kind, priority, per_hour, per_retry, max_attempts, created_at, payload, true
    FROM (SELECT * FROM {schema}.tasks LIMIT 1) t, generate_series(1, 5000) n, generate_series(0, 3) step;
    INSERT INTO {schema}.live (seq, namespace, queue, kind, state, attempt, lease, updated_at, slot, rank, entries, plain, is_step, waits, met, others)
    SELECT t.seq, namespace, queue, kind, CASE {schema}.step_of(t.id) WHEN 0 THEN 'pending' ELSE 'waiting' END, 0, 0, created_at, false, 0, 1, true,
        true, CASE WHEN {schema}.step_of(t.id) > 0 THEN 'parents' END, CASE WHEN {schema}.step_of(t.id) > 0 THEN 0 END,
        CASE WHEN {schema}.step_of(t.id) > 0 THEN 0 END
    FROM {schema}.tasks t WHERE t.seq > 4 AND {schema}.workflow_of(t.id) IN (SELECT id FROM {schema}.workflows WHERE finished_at IS NULL);
    INSERT INTO {schema}.ended (seq, state, attempt, lease, worker, claimed_at, started_at, finished_at, updated_at, rank, entries, plain, result,
        is_step)
    SELECT t.seq, 'completed', 1, 1, 'w', created_at, created_at, created_at, created_at, 0, 4, true, 'null', true
    FROM {schema}.tasks t WHERE t.seq > 4 AND {schema}.workflow_of(t.id) IN (SELECT id FROM {schema}.workflows WHERE finished_at IS NOT NULL);
    INSERT INTO {schema}.workflow_history SELECT w.seq, n, 'pending', w.created_at
    FROM {schema}.workflows w, generate_series(1, 4) n ON CONFLICT DO NOTHING
";
