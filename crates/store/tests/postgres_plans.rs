//! Every statement has one sane plan, whatever the server believes about the sizes of tables: by index, on
//! tables that are empty, that have grown since, and that were analysed.
#![allow(clippy::expect_used, clippy::panic)]

use windlass_store::Store;
use windlass_store::postgres::{Options, Schema, statements};
use windlass_testbed::postgres::Server;

/// The tables that grow.
const LARGE: [&str; 5] = ["tasks", "live", "ended", "history_rows", "notes"];

/// Those that look at everything on purpose, or are read as they come: settings, small tables.
const MAY_SCAN: [&str; 4] = ["pick", "pick_one", "settings", "parked_lanes"];

/// A claim that begins behind a floor goes there by the index, and does not walk.
const BEHIND: &str = "Index Cond … ROW((~";

/// What a statement must be found by, in one line of its plan.
const FOUND_BY: [(&str, &str); 20] = [
    ("claim_one", "live_claimable"),
    ("claim", "live_claimable"),
    ("claim_one", BEHIND),
    ("claim", BEHIND),
    ("claim", "tasks_pkey"),
    ("claim_one", "Tid Scan on live"),
    ("claim", "Tid Scan on live"),
    ("end", "Tid Scan on live"),
    ("update", "Tid Scan on live"),
    ("load_live", "tasks_id"),
    ("load_live", "live_pkey"),
    ("find_keys", "tasks_key"),
    ("due", "live_due on"),
    ("due_to_claim", "live_due_to_claim on"),
    ("due_to_claim", "Index Cond … (kind = k.kind) AND (due_at <= "),
    ("orphans", "live_held"),
    ("old", "ended_completed"),
    ("fill", "live_parked"),
    ("ready_workflows", "workflows_in_process"),
    ("ready_workflows", "Index Cond … (seq = "),
];

#[test]
fn statements_are_answered_by_index() {
    let server = Server::builder().setting("fsync", "off").start().expect("a server");
    let schema = Schema::default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let options = Options::new(&server.url()).expect("an address");
    let store = runtime.block_on(options.open()).expect("a store");
    runtime.block_on(store.close()).expect("closed");
    check(&server, &schema, "empty tables");
    // As it is after the first minutes of a busy day: large, and the server has not looked.
    server
        .sql(
            "ALTER TABLE windlass.live SET (autovacuum_enabled = off); \
             ALTER TABLE windlass.tasks SET (autovacuum_enabled = off); \
             ALTER TABLE windlass.ended SET (autovacuum_enabled = off); \
             SET search_path = windlass; \
             INSERT INTO tasks (id, namespace, queue, kind, priority, per_hour, per_retry, max_attempts, created_at, payload) \
             SELECT gen_random_uuid(), 'default', 'default', 'k' || n % 3, 0, 0, 0, 3, now(), '{}' FROM generate_series(1, 60000) n; \
             INSERT INTO live (seq, namespace, queue, kind, state, attempt, lease, updated_at, slot, rank, entries, plain) \
             SELECT seq, namespace, queue, kind, 'pending', 0, 0, now(), false, 0, 1, true FROM tasks WHERE seq % 2 = 0; \
             INSERT INTO ended (seq, state, attempt, lease, worker, claimed_at, started_at, finished_at, updated_at, rank, entries, \
                plain, result) \
             SELECT seq, 'completed', 1, 1, 'w', now(), now(), now(), now(), 0, 4, true, 'null' FROM tasks WHERE seq % 2 = 1",
        )
        .expect("filled");
    check(&server, &schema, "tables that have grown");
    server.sql("ANALYZE").expect("analysed");
    check(&server, &schema, "analysed tables");
}

/// Looks at the plan of every statement that is the same for all values, which is the one with the least to
/// go by.
fn check(server: &Server, schema: &Schema, when: &str) {
    for (name, text) in statements(schema) {
        if MAY_SCAN.contains(&name) {
            continue;
        }
        let values =
            (1..).take_while(|n| text.contains(&format!("${n}"))).map(|_| "NULL").collect::<Vec<_>>();
        let values = if values.is_empty() { String::new() } else { format!("({})", values.join(", ")) };
        let explained = server.sql(&format!(
            "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_bitmapscan = off; \
             PREPARE it AS {text}; EXPLAIN EXECUTE it{values}"
        ));
        let plan = explained.unwrap_or_else(|error| panic!("{name}: {error}"));
        for table in LARGE {
            let scans = plan.contains(&format!("Seq Scan on {table}"));
            assert!(!scans, "{name} walks through {table} on {when}:\n{plan}");
        }
        for (_, way) in FOUND_BY.iter().filter(|(statement, _)| *statement == name) {
            let is_found = |line: &str| way.split(" … ").all(|part| line.contains(part));
            assert!(plan.lines().any(is_found), "{name} is not found by {way} on {when}:\n{plan}");
        }
    }
}
