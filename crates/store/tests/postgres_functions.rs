//! Submitting with SQL: the same tasks, limits and wake-ups as through the store, inside anybody's
//! transaction.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;
use windlass_core::{
    Ageing, Backoff, Jitter, Json, Lane, Name, NewTask, NewWorker, OnConflict, RetryPolicy, Start, State,
    TaskId, Timestamp, TraceParent, WorkerId, rank,
};
use windlass_store::conformance::{KIND, claim_of, completed, entity, finish, id, ids, invariants};
use windlass_store::postgres::{Options, Schema};
use windlass_store::{Catalog, PostgresStore, Reads, Record, Rings, Store, SystemClock, Writes};
use windlass_testbed::postgres::Server;

/// Longer than anything here takes, so that a test which waits in vain fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(30);

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::builder().setting("fsync", "off").start().expect("a server can be started"))
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

async fn open(schema: &str) -> PostgresStore {
    let options = Options::new(&server().url()).unwrap().schema(Schema::new(schema).unwrap());
    options.open().await.unwrap()
}

/// A connection past the store, as any program has one.
async fn connect() -> Client {
    let (client, connection) = tokio_postgres::connect(&server().url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The id that a call of `submit` answers with.
async fn submit(client: &Client, schema: &str, args: &str) -> Result<TaskId, tokio_postgres::Error> {
    let row = client.query_one(&format!("SELECT {schema}.submit({args})"), &[]).await?;
    Ok(TaskId::new(row.get::<_, Uuid>(0)))
}

/// The ids that a call of `submit_many` answers with, and whether the tasks are new.
async fn submit_many(
    client: &Client,
    schema: &str,
    tasks: &str,
) -> Result<Vec<(TaskId, bool)>, tokio_postgres::Error> {
    let sql = format!("SELECT id, created FROM {schema}.submit_many($1::text::json)");
    let rows = client.query(&sql, &[&tasks]).await?;
    Ok(rows.iter().map(|row| (TaskId::new(row.get::<_, Uuid>(0)), row.get(1))).collect())
}

/// What the server says about a call that it refused: its code and its words.
fn said(error: &tokio_postgres::Error) -> (String, String) {
    let error = error.as_db_error().expect("the server answered");
    (error.code().code().to_owned(), error.message().to_owned())
}

/// Everything that submitting writes.
async fn rows(client: &Client, schema: &str) -> String {
    let mut all = String::new();
    for table in ["tasks", "live", "ended", "history", "counts", "entities"] {
        let sql = format!(
            "SELECT coalesce(string_agg(t::text, E'\\n' ORDER BY t::text), '') FROM {schema}.{table} t"
        );
        let row = client.query_one(&sql, &[]).await.unwrap();
        writeln!(all, "{table}:\n{}", row.get::<_, &str>(0)).unwrap();
    }
    all
}

fn plain() -> NewTask {
    NewTask::new(id(1), Name::kind(KIND).unwrap(), Json::default())
}

fn name(text: &str) -> Name {
    Name::queue(text).unwrap()
}

/// A task as SQL says it, in JSON members named as the parameters, and as Rust says it.
type Same = (&'static str, &'static str, fn(NewTask) -> NewTask);

const POLICY: &str = r#""retry": {"backoff": "linear", "base": {"secs": 2, "nanos": 5}, "cap": {"secs": 9, "nanos": 0}, "jitter": {"percent": 7}}"#;

const SAME: &[Same] = &[
    ("null", "", |new| new),
    (r#" {"a" : [1, 1e400, "ü\\u0041"], "a": null} "#, "", |new| new),
    ("null", r#""queue": "Emails.a_b-c:9""#, |new| NewTask { queue: name("Emails.a_b-c:9"), ..new }),
    ("null", r#""namespace": "tenant""#, |new| NewTask { namespace: name("tenant"), ..new }),
    ("null", r#""priority": 2147483647"#, |new| NewTask { priority: i32::MAX, ..new }),
    ("null", r#""priority": -2147483648"#, |new| NewTask { priority: i32::MIN, ..new }),
    ("null", r#""key": " any 'key' \" ü 漢 ""#, |new| NewTask {
        key: Some(" any 'key' \" ü 漢 ".into()),
        ..new
    }),
    ("1", r#""key": "twice""#, |new| NewTask { key: Some("twice".into()), ..new }),
    ("2", r#""key": "twice""#, |new| NewTask { key: Some("twice".into()), ..new }),
    ("3", r#""key": "twice", "namespace": "tenant""#, |new| NewTask {
        key: Some("twice".into()),
        namespace: name("tenant"),
        ..new
    }),
    ("null", r#""key": "new", "on_conflict": "reject""#, |new| NewTask {
        key: Some("new".into()),
        on_conflict: OnConflict::Reject,
        ..new
    }),
    ("null", r#""run_at": "2100-03-01 00:00:00.000001+00""#, |new| NewTask {
        start: Start::At(Timestamp::from_micros(4_107_542_400_000_001)),
        ..new
    }),
    ("null", r#""run_at": "1999-01-01T00:00:00Z""#, |new| NewTask {
        start: Start::At(Timestamp::MIN),
        ..new
    }),
    ("null", r#""run_at": "infinity""#, |new| NewTask { start: Start::At(Timestamp::MAX), ..new }),
    ("null", r#""delay": "1 day 00:00:00.25""#, |new| NewTask {
        start: Start::After(Duration::from_millis(86_400_250)),
        ..new
    }),
    ("null", r#""delay": "0""#, |new| NewTask { start: Start::After(Duration::ZERO), ..new }),
    ("null", r#""delay": "9000 years""#, |new| NewTask { start: Start::After(Duration::MAX), ..new }),
    ("null", r#""lane": "a lane""#, |new| NewTask { lane: Some(Lane::new("a lane", 1).unwrap()), ..new }),
    ("null", r#""lane": "a lane", "lane_limit": 3"#, |new| NewTask {
        lane: Some(Lane::new("a lane", 3).unwrap()),
        ..new
    }),
    ("null", r#""lane": "strict", "lane_limit": 100000, "lane_strict": true"#, |new| NewTask {
        lane: Some(Lane::new("strict", 100_000).unwrap().strict()),
        ..new
    }),
    ("null", r#""entity": "planner:4:2""#, |new| NewTask {
        lane: Some(Lane::of(&entity("planner:4:2"))),
        ..new
    }),
    ("null", r#""entity": "planner:4:2", "require_entity": true, "lane_strict": true"#, |new| NewTask {
        lane: Some(Lane::of(&entity("planner:4:2")).strict()),
        require_entity: true,
        ..new
    }),
    ("null", r#""lane": "a lane", "lane_limit": 3, "delay": "1 hour""#, |new| NewTask {
        lane: Some(Lane::new("a lane", 3).unwrap()),
        start: Start::After(Duration::from_secs(3600)),
        ..new
    }),
    ("null", r#""timeout": "00:00:00.001""#, |new| NewTask {
        timeout: Some(Duration::from_millis(1)),
        ..new
    }),
    ("null", r#""timeout": "365 days""#, |new| NewTask {
        timeout: Some(Duration::from_secs(31_536_000)),
        ..new
    }),
    ("null", r#""tags": ["a", "b c", "\"quoted\", {x}"], "actor": "ada""#, |new| {
        let tags = ["a", "b c", "\"quoted\", {x}"].map(String::from).to_vec();
        NewTask { tags, actor: Some("ada".into()), ..new }
    }),
    ("null", r#""max_attempts": null"#, |new| NewTask { max_attempts: None, ..new }),
    ("null", r#""max_attempts": 1000000"#, |new| NewTask { max_attempts: NonZeroU32::new(1_000_000), ..new }),
    ("null", POLICY, |new| {
        let retry = RetryPolicy {
            backoff: Backoff::Linear,
            base: Duration::new(2, 5),
            cap: Duration::from_secs(9),
            jitter: Jitter::Percent(7),
        };
        NewTask { retry, ..new }
    }),
    ("null", r#""retry": {"backoff": {"exponential": {"factor": 3.5}}, "jitter": "full"}"#, |new| {
        let backoff = Backoff::Exponential { factor: 3.5 };
        NewTask { retry: RetryPolicy { backoff, jitter: Jitter::Full, ..new.retry }, ..new }
    }),
    (
        "null",
        r#""retry": {"backoff": {"exponential": {"factor": 2}}, "base": {"secs": 1, "nanos": 0}}"#,
        |new| new,
    ),
    ("null", r#""ageing_per_hour": 1000000000, "ageing_per_retry": 17, "priority": 5"#, |new| NewTask {
        ageing: Ageing { per_hour: 1_000_000_000, per_retry: 17 },
        priority: 5,
        ..new
    }),
    ("null", r#""traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-fe""#, |new| NewTask {
        traceparent: TraceParent::new(TRACE, SPAN, 0xfe),
        ..new
    }),
    ("null", r#""traceparent": "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0b-later""#, |new| {
        NewTask { traceparent: TraceParent::new(TRACE, SPAN, 1), ..new }
    }),
    ("null", r#""traceparent": "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1a""#, |new| NewTask {
        traceparent: TraceParent::new(TRACE, SPAN, 0),
        ..new
    }),
];

const TRACE: [u8; 16] = 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes();
const SPAN: [u8; 8] = 0xb7ad_6b71_6920_3331_u64.to_be_bytes();

/// The arguments of `submit` that say the same as JSON members.
fn arguments(payload: &str, members: &str) -> String {
    let members: Map<String, Value> = serde_json::from_str(&format!("{{{members}}}")).unwrap();
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let mut args = format!("'{KIND}', {}", quoted(payload));
    for (name, value) in members {
        let value = match value {
            Value::String(text) => quoted(&text),
            Value::Array(list) => {
                let list: Vec<String> = list.iter().map(|tag| quoted(tag.as_str().unwrap())).collect();
                format!("ARRAY[{}]", list.join(", "))
            }
            value @ Value::Object(_) => quoted(&value.to_string()),
            value => value.to_string(),
        };
        write!(args, ", {name} => {value}").unwrap();
    }
    args
}

/// All about a task but what differs between two submits of the same: its id and when it was. What follows
/// from these is checked.
fn normal(mut record: Record) -> Record {
    let created = record.task.spec.created_at;
    let (spec, status) = (&mut record.task.spec, &mut record.task.status);
    assert_eq!(status.rank, rank(spec.priority, spec.ageing, created, 0), "{spec:?}");
    assert_eq!((status.updated_at, record.history[0].at), (created, created), "{spec:?}");
    let fixed = Timestamp::from_micros(4_000_000_000_000_000);
    status.due_at =
        status.due_at.map(|due| if due > fixed { due } else { Timestamp::MIN.plus(due.since(created)) });
    status.rank = 0;
    spec.created_at = Timestamp::MIN;
    status.updated_at = Timestamp::MIN;
    record.history[0].at = Timestamp::MIN;
    record.task.id = id(0);
    record
}

async fn normal_of(store: &PostgresStore, id: TaskId) -> Record {
    normal(store.task(id).await.unwrap().expect("it was submitted"))
}

/// The same tasks, one after the other through SQL, all at once through SQL, and through the store, are the
/// same.
#[test]
fn sql_submits_what_the_store_submits() {
    runtime().block_on(async {
        let client = connect().await;
        let (one, many, store) = (open("same_one").await, open("same_many").await, open("same_rust").await);
        for store in [&one, &many, &store] {
            assert!(store.set_entity(Name::default(), entity("planner:4:2"), true).await.unwrap());
        }
        let mut batch = Vec::new();
        let (mut by_one, mut by_rust) = (Vec::new(), Vec::new());
        for (n, (payload, members, new)) in (1..).zip(SAME) {
            let args = arguments(payload, members);
            by_one.push(
                submit(&client, "same_one", &args).await.unwrap_or_else(|error| panic!("{args}: {error:?}")),
            );
            let comma = if members.is_empty() { "" } else { ", " };
            batch.push(format!(r#"{{"kind": "{KIND}", "payload": {payload}{comma}{members}}}"#));
            let payload = Json::payload(payload).unwrap();
            let task = new(NewTask { id: id(n), payload, ..plain() });
            by_rust.push(store.submit(vec![task]).await.unwrap()[0]);
        }
        let by_many = submit_many(&client, "same_many", &format!("[{}]", batch.join(","))).await.unwrap();
        assert!(SAME.len() >= 30);
        for (n, (rust, (_, members, _))) in by_rust.iter().zip(SAME).enumerate() {
            let wanted = normal_of(&store, rust.id).await;
            assert_eq!(normal_of(&one, by_one[n]).await, wanted, "submit: {members}");
            let (id, created) = by_many[n];
            // What stands around JSON in a list is not part of it.
            let trimmed =
                Record { payload: Json::payload(wanted.payload.as_str().trim()).unwrap(), ..wanted };
            assert_eq!(normal_of(&many, id).await, trimmed, "submit_many: {members}");
            assert_eq!(created, rust.created, "{members}");
        }
        let distinct = |ids: &mut dyn Iterator<Item = TaskId>| ids.collect::<BTreeSet<_>>().len();
        let made = distinct(&mut by_rust.iter().map(|one| one.id));
        assert_eq!(distinct(&mut by_one.iter().copied()), made, "keys mean the same");
        assert_eq!(one.counts().await.unwrap(), store.counts().await.unwrap());
        assert_eq!(many.counts().await.unwrap(), store.counts().await.unwrap());
        for store in [&one, &many] {
            invariants::check(store, &SystemClock).await;
        }
    });
}

/// Ids are of version 7 and follow time; a long actor is cut where the store cuts it; payloads that only JSON
/// text can hold go through.
#[test]
fn what_a_table_cannot_show() {
    runtime().block_on(async {
        let (client, store) = (connect().await, open("details").await);
        let made = submit(&client, "details", "'a'").await.unwrap();
        let uuid = Uuid::from_bytes(*made.as_bytes());
        let created = store.task(made).await.unwrap().unwrap().task.spec.created_at.as_micros();
        assert_eq!(uuid.get_version_num(), 7);
        assert_eq!(uuid.get_variant(), uuid::Variant::RFC4122);
        assert_eq!(uuid.as_u128() >> 80, u128::try_from(created / 1000).unwrap(), "the time in milliseconds");
        assert_eq!(submit(&client, "details", &format!("'a', id => '{}'", id(5))).await.unwrap(), id(5));

        for actor in ["x".repeat(16_384), "ü".repeat(9_000), format!("x{}", "漢".repeat(6_000))] {
            let made = submit(&client, "details", &format!("'a', actor => '{actor}'")).await.unwrap();
            let stored = store.task(made).await.unwrap().unwrap().history[0].actor.clone().unwrap();
            assert_eq!(stored, windlass_core::stored_text(&actor));
        }
        let deep = format!("{}\"]]\\\"[[\"{}", "[".repeat(128), "]".repeat(128));
        let large = format!("\"{}\"", "x".repeat((1 << 20) - 2));
        for payload in [r#""\u0000""#, r#"["\ud800"]"#, "1e999999", &deep, &large] {
            let row =
                client.query_one("SELECT details.submit('a', $1::text::json)", &[&payload]).await.unwrap();
            let record = store.task(TaskId::new(row.get(0))).await.unwrap().unwrap();
            assert_eq!(record.payload, Json::payload(payload).unwrap());
        }
        let none: Vec<(TaskId, bool)> = submit_many(&client, "details", "[]").await.unwrap();
        assert_eq!(none, []);
    });
}

/// Calls that are refused, why, and in what words.
#[test]
fn what_is_refused_changes_nothing() {
    runtime().block_on(async {
        let (client, store) = (connect().await, open("refused").await);
        let known = submit(&client, "refused", "'a', key => 'k'").await.unwrap();
        let before = rows(&client, "refused").await;
        let long = |n: usize| "x".repeat(n);
        let tags = vec!["'t'"; 33].join(", ");
        let mut calls: Vec<(String, &str, String)> = [
            ("NULL", "invalid kind is NULL; expected 1 to 128 characters from A-Z a-z 0-9 . _ : -"),
            ("''", "invalid kind is \"\"; expected 1 to 128"),
            ("'a b'", "invalid kind is \"a b\"; expected 1 to 128"),
            ("E'a\\n'", "invalid kind"),
            ("'é'", "invalid kind is \"é\""),
            ("'a', queue => 'a/b'", "invalid queue is \"a/b\""),
            ("'a', namespace => ''", "invalid namespace is \"\""),
            ("'a', on_conflict => 'replace'", "invalid on_conflict is \"replace\"; expected \"return\" or \"reject\""),
            ("'a', key => ''", "invalid idempotency key is \"\"; expected 1 to 512 bytes"),
            ("'a', delay => '-1 s'", "invalid delay"),
            ("'a', delay => '1 s', run_at => now()", "either run_at or delay"),
            ("'a', lane => ''", "invalid lane key is \"\""),
            ("'a', lane => '@x'", "a key that does not start with @"),
            ("'a', lane => 'x', lane_limit => 0", "invalid lane limit is 0; expected 1 to 100000"),
            ("'a', lane => 'x', lane_limit => 100001", "invalid lane limit is 100001"),
            ("'a', lane_limit => 2", "a lane or an entity"),
            ("'a', lane_strict => true", "a lane or an entity"),
            ("'a', lane => 'x', entity => 'a:b'", "either a lane or an entity"),
            ("'a', entity => 'a:b', lane_limit => 2", "invalid lane limit is 2"),
            ("'a', entity => 'planner'", "invalid entity is \"planner\"; expected type:id, such as planner:42"),
            ("'a', entity => 'a b:c'", "invalid entity"),
            ("'a', traceparent => ''", "invalid traceparent is \"\"; expected 00-TRACE-SPAN-FLAGS of 32, 16 and 2"),
            ("'a', traceparent => '00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01'", "invalid traceparent"),
            ("'a', traceparent => '00-00000000000000000000000000000000-b7ad6b7169203331-01'", "invalid traceparent"),
            ("'a', traceparent => '00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01'", "invalid traceparent"),
            ("'a', traceparent => '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x'", "invalid traceparent"),
            ("'a', traceparent => 'ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'", "invalid traceparent"),
            ("'a', traceparent => '01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01x'", "invalid traceparent"),
            ("'a', traceparent => E'00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\\n'", "invalid traceparent"),
            ("'a', entity => 'a:'", "invalid entity"),
            ("'a', entity => 'a:b', require_entity => true", "entity \"a:b\" is not registered"),
            ("'a', timeout => '999 microseconds'", "invalid timeout"),
            ("'a', timeout => '366 days'", "expected 1 ms to 365 days"),
            ("'a', tags => ARRAY['']", "invalid tag is \"\"; expected 1 to 128 bytes"),
            ("'a', tags => ARRAY['a', NULL]", "invalid tag is NULL"),
            ("'a', max_attempts => 0", "invalid max_attempts is 0; expected 1 to 1000000, or NULL for no limit"),
            ("'a', max_attempts => 1000001", "invalid max_attempts is 1000001"),
            ("'a', ageing_per_hour => -1", "invalid ageing"),
            ("'a', ageing_per_retry => 1000000001", "invalid ageing"),
            ("'a', retry => '[]'", "invalid retry is"),
            ("'a', retry => '{\"backof\": \"fixed\"}'", "an object with backoff, base, cap and jitter"),
            ("'a', retry => '{\"backoff\": \"often\"}'", "invalid retry backoff"),
            ("'a', retry => '{\"backoff\": null}'", "invalid retry backoff"),
            ("'a', retry => '{\"backoff\": {\"exponential\": {\"factor\": 0.5}}}'", "invalid retry factor is 0.5"),
            ("'a', retry => '{\"backoff\": {\"exponential\": {\"factor\": 1e999}}}'", "expected 1 to 1000"),
            ("'a', retry => '{\"backoff\": {\"exponential\": {}}}'", "invalid retry backoff"),
            ("'a', retry => '{\"jitter\": {\"percent\": 101}}'", "invalid retry jitter is 101; expected 0 to 100 percent"),
            ("'a', retry => '{\"jitter\": {\"percent\": 1.5}}'", "invalid retry jitter"),
            ("'a', retry => '{\"jitter\": [1]}'", "invalid retry jitter"),
            ("'a', retry => '{\"base\": {\"secs\": 61}}'", "invalid retry base"),
            ("'a', retry => '{\"base\": 1}'", "invalid retry base"),
            ("'a', retry => '{\"base\": {\"secs\": -1}}'", "invalid retry base"),
            ("'a', retry => '{\"base\": {\"secs\": 1, \"nanos\": 1000000000}}'", "invalid retry base"),
            ("'a', retry => '{\"cap\": {\"nanos\": 1}}'", "invalid retry cap"),
            ("'a', retry => '{\"cap\": {\"secs\": 31536001}}'", "at most 365 days"),
        ]
        .map(|(args, words)| (args.to_owned(), "22023", words.to_owned()))
        .into();
        for (args, words) in [
            (format!("'{}'", long(129)), "invalid kind"),
            (format!("'a', key => '{}'", long(513)), "invalid idempotency key"),
            (format!("'a', key => '{}'", "ü".repeat(257)), "invalid idempotency key"),
            (format!("'a', entity => 'a:{}'", long(511)), "invalid entity"),
            (format!("'a', tags => ARRAY['{}']", long(129)), "invalid tag"),
            (format!("'a', tags => ARRAY[{tags}]"), "invalid number of tags is 33; expected at most 32"),
            (format!("'a', '\"{}\"'", long(1 << 20)), "at most 1048576 bytes of JSON"),
            (format!("'a', '{}{}'", "[".repeat(129), "]".repeat(129)), "at most 128 levels deep"),
            (format!("'a', '{}{}'", "[{\"a\":".repeat(65), "}]".repeat(65)).replace(":}", ":1}"), "at most 128 levels"),
        ] {
            calls.push((args, "22023", words.into()));
        }
        calls.push(("'a', key => 'k', on_conflict => 'reject'".into(), "23505", format!(
            "a task with key \"k\" exists already: {known}; use another key, or delete it"
        )));
        calls.push((format!("'a', id => '{known}'"), "23505", format!("a task with id {known} exists already")));
        calls.push(("'a', '{'".into(), "22P02", "invalid input syntax for type json".into()));
        for (args, code, words) in &calls {
            let Err(error) = submit(&client, "refused", args).await else { panic!("accepted: {args:.200}") };
            let error = said(&error);
            assert!(error.0 == *code && error.1.contains(words), "{args:.200}: {error:?}, not {code} {words}");
            assert_eq!(rows(&client, "refused").await, before, "{args:.200}");
        }
        let many = format!("[{}]", vec![r#"{"kind": "a"}"#; 1001].join(","));
        let good = r#"{"kind": "a"}"#;
        for (tasks, code, words) in [
            ("{}", "22023", "invalid tasks is"),
            ("null", "22023", "expected a list of objects"),
            ("[1]", "22023", "invalid task is"),
            (&*many, "22023", "invalid number of tasks is 1001; expected at most 1000 in one batch"),
            (&format!(r#"[{good}, {{"kind": "a", "prio": 1}}]"#), "22023", "task 2 of the batch: invalid member is \"prio\""),
            (&format!(r#"[{good}, {{"kind": "a", "priority": "x"}}]"#), "22023", "task 2 of the batch: invalid input"),
            (&format!(r#"[{good}, {{"kind": "a b"}}]"#), "22023", "task 2 of the batch: invalid kind is \"a b\""),
            (&format!(r#"[{good}, {{}}]"#), "22023", "invalid kind is NULL"),
            (
                &format!(r#"[{good}, {{"kind": "a", "traceparent": "00-0af7"}}]"#),
                "22023",
                "task 2 of the batch: invalid traceparent is \"00-0af7\"",
            ),
            (&format!(r#"[{good}, {{"kind": "a", "payload": "\u0000"}}]"#), "22023", "task 2 of the batch: unsupported Unicode"),
            (
                &format!(r#"[{good}, {{"kind": "a", "key": "k", "on_conflict": "reject"}}]"#),
                "23505",
                &format!("task 2 of the batch: a task with key \"k\" exists already: {known}"),
            ),
            (
                r#"[{"kind": "b", "id": "01900000-0000-7000-8000-000000000007"}, {"kind": "a", "id": "01900000-0000-7000-8000-000000000007"}]"#,
                "23505",
                "exists already; ids are never reused; nothing of the batch was submitted",
            ),
        ] {
            let Err(error) = submit_many(&client, "refused", tasks).await else { panic!("accepted: {tasks:.200}") };
            let error = said(&error);
            assert!(error.0 == code && error.1.contains(words), "{tasks:.200}: {error:?}, not {code} {words}");
            assert_eq!(rows(&client, "refused").await, before, "{tasks:.200}");
        }
        assert!(calls.len() >= 25);

        // The store refuses in the same words.
        let refused = store.submit(vec![NewTask {
            kind: Name::kind("a").unwrap(),
            key: Some("k".into()),
            on_conflict: OnConflict::Reject,
            ..plain()
        }]);
        let sql = submit(&client, "refused", "'a', key => 'k', on_conflict => 'reject'").await.unwrap_err();
        assert_eq!(refused.await.unwrap_err().to_string(), said(&sql).1);
    });
}

/// Waits for a bell.
async fn heard(watch: &mut watch::Receiver<Rings>, which: impl Fn(&Rings) -> bool) -> Rings {
    let waiting = watch.wait_for(which);
    *tokio::time::timeout(PATIENCE, waiting).await.expect("the bell is rung").unwrap()
}

/// Nothing is seen or heard of a task before its transaction is committed; and nothing ever, if it is rolled
/// back.
#[test]
fn tasks_come_with_the_transaction() {
    runtime().block_on(async {
        let (client, other) = (connect().await, connect().await);
        let store = open("bells").await;
        let mut watch = store.watch();
        let before = *watch.borrow_and_update();
        let nothing = rows(&client, "bells").await;

        client.batch_execute("BEGIN").await.unwrap();
        let lost = submit(&client, "bells", "'a'").await.unwrap();
        submit(&client, "bells", "'a', delay => '1 hour'").await.unwrap();
        assert_eq!(store.task(lost).await.unwrap(), None, "not before the commit");
        client.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(rows(&client, "bells").await, nothing);
        // Notifications arrive in the order of commits, so that one that comes after shows that none came
        // before.
        other.batch_execute("SELECT pg_notify('bells', ' s')").await.unwrap();
        let after = heard(&mut watch, |rings| rings.settled > before.settled).await;
        assert_eq!((after.claimable, after.timed), (before.claimable, before.timed), "nothing was rung");

        client.batch_execute("BEGIN").await.unwrap();
        let kept = submit(&client, "bells", "'a'").await.unwrap();
        other.batch_execute("SELECT pg_notify('bells', ' s')").await.unwrap();
        let still = heard(&mut watch, |rings| rings.settled > after.settled).await;
        assert_eq!(still.claimable, before.claimable, "not before the commit");
        client.batch_execute("COMMIT").await.unwrap();
        let rung = heard(&mut watch, |rings| rings.claimable > before.claimable).await;
        assert_eq!(rung.timed, before.timed);
        assert!(store.task(kept).await.unwrap().is_some());

        submit(&client, "bells", "'a', delay => '1 hour'").await.unwrap();
        let timed = heard(&mut watch, |rings| rings.timed > rung.timed).await;
        assert_eq!(timed.claimable, rung.claimable);
        submit_many(&client, "bells", r#"[{"kind": "a"}, {"kind": "a", "delay": "1 hour"}]"#).await.unwrap();
        heard(&mut watch, |rings| rings.timed > timed.timed && rings.claimable > timed.claimable).await;
        invariants::check(&store, &SystemClock).await;
    });
}

/// 1.3: one key is one task, whoever submits it at the same time, through SQL or the store.
#[test]
fn one_key_is_one_task() {
    runtime().block_on(async {
        let store = open("one_key").await;
        let mut clients = Vec::new();
        for _ in 0..8 {
            clients.push(connect().await);
        }
        for round in 0..25_u64 {
            let callers: Vec<_> = clients
                .into_iter()
                .enumerate()
                .map(|(n, client)| {
                    tokio::spawn(async move {
                        let key = format!("round {round}");
                        let made = if n % 2 == 0 {
                            (
                                submit(&client, "one_key", &format!("'{KIND}', key => '{key}'"))
                                    .await
                                    .unwrap(),
                                false,
                            )
                        } else {
                            // In two orders, so that who waits for a key may hold another.
                            let other = format!(r#"{{"kind": "{KIND}", "key": "other {round}"}}"#);
                            let this = format!(r#"{{"kind": "{KIND}", "key": "{key}"}}"#);
                            let (at, tasks) = match n % 4 {
                                1 => (0, format!("[{this}, {other}]")),
                                _ => (1, format!("[{other}, {this}]")),
                            };
                            submit_many(&client, "one_key", &tasks).await.unwrap()[at]
                        };
                        (client, made)
                    })
                })
                .collect();
            let key = Some(format!("round {round}"));
            let by_store =
                store.submit(vec![NewTask { id: id(round + 1), key, ..plain() }]).await.unwrap()[0];
            clients = Vec::new();
            let mut created = usize::from(by_store.created);
            for caller in callers {
                let (client, (id, was_created)) = caller.await.unwrap();
                assert_eq!(id, by_store.id);
                created += usize::from(was_created);
                clients.push(client);
            }
            assert!(created <= 1);
        }
        let tasks: u64 = store.counts().await.unwrap().iter().map(|count| count.tasks).sum();
        assert_eq!(tasks, 50);
        invariants::check(&store, &SystemClock).await;
    });
}

/// Who submits a key that another is about to submit waits for what becomes of it.
#[test]
fn a_key_that_is_rolled_back_is_free() {
    runtime().block_on(async {
        let (first, second, observer) = (connect().await, connect().await, connect().await);
        let store = open("free_key").await;
        for end in ["ROLLBACK", "COMMIT"] {
            first.batch_execute("BEGIN").await.unwrap();
            let args = format!("'a', key => '{end}'");
            let held = submit(&first, "free_key", &args).await.unwrap();
            let pid: i32 = second.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
            let waiting = async {
                let waits = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $1";
                loop {
                    let row = observer.query_one(waits, &[&pid]).await.unwrap();
                    if row.get::<_, Option<bool>>(0) == Some(true) {
                        break;
                    }
                }
                first.batch_execute(end).await.unwrap();
            };
            let both = async { tokio::join!(submit(&second, "free_key", &args), waiting).0.unwrap() };
            let made = tokio::time::timeout(PATIENCE, both).await.expect("it ends");
            assert_eq!(made == held, end == "COMMIT", "{end}");
            assert!(store.task(made).await.unwrap().is_some());
        }
        let tasks: u64 = store.counts().await.unwrap().iter().map(|count| count.tasks).sum();
        assert_eq!(tasks, 2);
    });
}

/// A transaction that lasts keeps nobody from work: neither its counts nor its keys are in the way of the
/// store's.
#[test]
fn a_long_transaction_is_not_waited_for() {
    runtime().block_on(async {
        let store = open("long").await;
        let mut clients = Vec::new();
        // As many as there are parts of the numbers of tasks that connections of stores use, and more.
        for n in 0..70 {
            let client = connect().await;
            client.batch_execute("BEGIN; SET LOCAL statement_timeout = '20s'").await.unwrap();
            submit(&client, "long", &format!("'{KIND}', key => '{n}'")).await.unwrap();
            clients.push(client);
        }
        let work = async {
            for n in 1..=20 {
                store.submit(vec![NewTask { id: id(n), ..plain() }]).await.unwrap();
            }
        };
        // Less than the store waits for a lock.
        tokio::time::timeout(Duration::from_secs(8), work).await.expect("nobody is waited for");
        for client in clients {
            client.batch_execute("COMMIT").await.unwrap();
        }
        let tasks: u64 = store.counts().await.unwrap().iter().map(|count| count.tasks).sum();
        assert_eq!(tasks, 90);
        let parts = "SELECT count(*) FROM long.counts WHERE part >= 64";
        let parts = || server().sql(parts).unwrap().parse::<u64>().unwrap();
        let used = parts();
        let client = connect().await;
        for _ in 0..50 {
            submit(&client, "long", &format!("'{KIND}'")).await.unwrap();
        }
        assert_eq!(parts(), used, "parts are used again");
        invariants::check(&store, &SystemClock).await;
    });
}

/// 0.8: slots are given in submit order, whoever submits; a parked task is woken by the one before it.
#[test]
fn lanes_are_kept() {
    runtime().block_on(async {
        let (client, store) = (connect().await, open("lanes").await);
        let kinds = vec![Name::kind(KIND).unwrap()];
        let new = NewWorker { kinds, ..NewWorker::new(WorkerId::new("worker").unwrap()) };
        let worker = store.register(new).await.unwrap().id;
        let args = format!("'{KIND}', entity => 'planner:1'");
        let mut watch = store.watch();
        let before = *watch.borrow_and_update();
        let first = submit(&client, "lanes", &args).await.unwrap();
        let before = heard(&mut watch, |rings| rings.claimable > before.claimable).await;
        let second = submit(&client, "lanes", &args).await.unwrap();
        client.batch_execute("SELECT pg_notify('lanes', ' s')").await.unwrap();
        let after = heard(&mut watch, |rings| rings.settled > before.settled).await;
        assert_eq!(after.claimable, before.claimable, "one that is parked wakes nobody");

        let claimed = store.claim(claim_of(&worker, 9)).await.unwrap();
        assert_eq!(ids(&claimed), [first]);
        store.apply(vec![finish(&claimed[0], completed("1"))]).await.unwrap().remove(0).unwrap();
        let claimed = store.claim(claim_of(&worker, 9)).await.unwrap();
        assert_eq!(ids(&claimed), [second]);

        // Several of one lane in one call, and several callers with the store among them.
        let tasks = vec![format!(r#"{{"kind": "{KIND}", "lane": "shared", "lane_limit": 3}}"#); 5].join(",");
        let tasks = format!("[{tasks}]");
        let made = submit_many(&client, "lanes", &tasks).await.unwrap();
        let claimed = store.claim(claim_of(&worker, 9)).await.unwrap();
        let made: Vec<TaskId> = made.iter().map(|(id, _)| *id).collect();
        assert_eq!(ids(&claimed), made[..3]);
        let callers: Vec<_> = (0..6)
            .map(|_| {
                let tasks = tasks.clone();
                tokio::spawn(async move {
                    let client = connect().await;
                    for _ in 0..5 {
                        submit_many(&client, "lanes", &tasks).await.unwrap();
                    }
                })
            })
            .collect();
        for one in &claimed {
            let lane = Some(Lane::new("shared", 3).unwrap());
            store
                .submit(vec![NewTask { id: id(u64::from(one.task.id.as_bytes()[15])), lane, ..plain() }])
                .await
                .unwrap();
            store.apply(vec![finish(one, completed("1"))]).await.unwrap().remove(0).unwrap();
        }
        for caller in callers {
            caller.await.unwrap();
        }
        invariants::check(&store, &SystemClock).await;
        assert_eq!(store.reconcile(None, 1000).await.unwrap().repaired, 0);
    });
}

/// 0.8: a slot is given once, also while a transaction that takes it is not yet committed; the store and SQL
/// wait for each other at the same lock.
#[test]
fn a_lane_is_held_until_the_commit() {
    runtime().block_on(async {
        let (first, second, observer) = (connect().await, connect().await, connect().await);
        let store = open("held_lane").await;
        let pid: i32 = first.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
        let waited_for = "SELECT EXISTS (
            SELECT FROM pg_locks held JOIN pg_locks wanted USING (locktype, database, classid, objid, objsubid)
            WHERE held.pid = $1 AND held.granted AND NOT wanted.granted AND locktype = 'advisory')";
        for by_store in [false, true] {
            let lane = format!("lane {by_store}");
            first.batch_execute("BEGIN").await.unwrap();
            submit(&first, "held_lane", &format!("'{KIND}', lane => '{lane}'")).await.unwrap();
            let over = AtomicBool::new(false);
            let submitting = async {
                if by_store {
                    let lane = Some(Lane::new(&lane, 1).unwrap());
                    store.submit(vec![NewTask { lane, ..plain() }]).await.unwrap();
                } else {
                    submit(&second, "held_lane", &format!("'{KIND}', lane => '{lane}'")).await.unwrap();
                }
                over.store(true, Ordering::SeqCst);
            };
            let committing = async {
                while !observer.query_one(waited_for, &[&pid]).await.unwrap().get::<_, bool>(0) {
                    assert!(!over.load(Ordering::SeqCst), "by store: {by_store}: it did not wait");
                }
                first.batch_execute("COMMIT").await.unwrap();
            };
            let both = async { tokio::join!(submitting, committing) };
            tokio::time::timeout(PATIENCE, both).await.expect("it ends");
        }
        invariants::check(&store, &SystemClock).await;
        let slots = invariants::dump(&store).await.iter().filter(|one| one.task.status.slot).count();
        assert_eq!(slots, 2, "one in each lane");
    });
}

/// From a trigger, by a role that may submit and nothing else, whatever its search path and its temporary
/// tables are called.
#[test]
fn a_trigger_submits_for_a_role_that_may_only_submit() {
    runtime().block_on(async {
        let (client, store) = (connect().await, open("shop").await);
        client
            .batch_execute(
                "CREATE ROLE clerk; CREATE ROLE stranger; GRANT USAGE ON SCHEMA shop TO clerk, stranger;
                GRANT EXECUTE ON FUNCTION shop.submit, shop.submit_many TO clerk;
                CREATE TABLE public.sales (id bigint); GRANT ALL ON public.sales TO clerk, stranger;
                CREATE FUNCTION public.sold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    PERFORM shop.submit('sale:bill', row_to_json(NEW), key => 'sale ' || NEW.id, actor => current_user);
                    RETURN NEW;
                END $$;
                CREATE TRIGGER sold AFTER INSERT ON public.sales FOR EACH ROW EXECUTE FUNCTION public.sold();",
            )
            .await
            .unwrap();
        client.batch_execute("SET ROLE stranger").await.unwrap();
        let refused = client.batch_execute("INSERT INTO public.sales VALUES (0)").await.unwrap_err();
        assert_eq!(said(&refused).0, "42501", "who is not allowed to may not");
        client.batch_execute("SET ROLE clerk; SET search_path = pg_catalog").await.unwrap();
        client.batch_execute("CREATE TEMP TABLE tasks (x int); CREATE TEMP TABLE live (x int)").await.unwrap();
        client.batch_execute("BEGIN; INSERT INTO public.sales VALUES (1); ROLLBACK").await.unwrap();
        client.batch_execute("INSERT INTO public.sales VALUES (2), (3)").await.unwrap();
        let refused = client.query("SELECT * FROM shop.tasks", &[]).await.unwrap_err();
        assert_eq!(said(&refused).0, "42501", "who may submit may not read");
        let records = invariants::dump(&store).await;
        let found: Vec<(&str, &str)> =
            records.iter().map(|one| (one.payload.as_str(), &**one.task.spec.key.as_ref().unwrap())).collect();
        assert_eq!(found, [(r#"{"id":2}"#, "sale 2"), (r#"{"id":3}"#, "sale 3")]);
        assert!(records.iter().all(|one| one.history[0].actor.as_deref() == Some("clerk")));
        assert!(records.iter().all(|one| one.task.status.state == State::Pending));
        invariants::check(&store, &SystemClock).await;
    });
}

/// Several Windlass in one database have their own tasks, keys, bells and views.
#[test]
fn two_schemas_do_not_meet() {
    runtime().block_on(async {
        let client = connect().await;
        let (left, right) = (open("blue").await, open("green").await);
        let mut watch = right.watch();
        let before = *watch.borrow_and_update();
        let in_left = submit(&client, "blue", "'a', key => 'k', entity => 'x:1'").await.unwrap();
        client.batch_execute("SELECT pg_notify('green', ' s')").await.unwrap();
        let after = heard(&mut watch, |rings| rings.settled > before.settled).await;
        assert_eq!(after.claimable, before.claimable, "the bell of one is not the other's");
        let in_right = submit(&client, "green", "'a', key => 'k', entity => 'x:1'").await.unwrap();
        assert_ne!(in_left, in_right);
        for (store, schema, own, other) in
            [(&left, "blue", in_left, in_right), (&right, "green", in_right, in_left)]
        {
            let record = store.task(own).await.unwrap().unwrap();
            assert!(record.task.status.slot, "the lanes of one are not the other's");
            assert_eq!(store.task(other).await.unwrap(), None);
            let seen = server().sql(&format!("SELECT id FROM {schema}_orchestrator.tasks")).unwrap();
            assert_eq!(seen, own.to_string());
        }
    });
}

/// The SQL of docs/sql.md runs as it stands there, one block after the other.
#[test]
fn the_documentation_is_true() {
    let text = include_str!("../../../docs/sql.md");
    let blocks: Vec<&str> =
        text.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(blocks.len() >= 5, "{} blocks", blocks.len());
    let url = server().create_database("documentation").unwrap();
    runtime().block_on(async {
        let store = PostgresStore::open(&url).await.unwrap();
        for block in blocks {
            server().sql_in("documentation", block).unwrap_or_else(|error| panic!("{block}\n{error}"));
        }
        let kinds: BTreeSet<String> =
            store.counts().await.unwrap().iter().map(|count| count.kind.to_string()).collect();
        assert_eq!(kinds, ["email:send", "order:bill", "report:make"].map(String::from).into());
        let (namespace, kind) = (Name::default(), Name::kind("report:make").unwrap());
        let report =
            store.find(namespace.clone(), kind.clone(), "report-2026-05".into()).await.unwrap().unwrap();
        let report = store.task(report).await.unwrap().unwrap();
        assert_eq!(report.task.spec.retry.base, Duration::from_secs(30));
        invariants::check(&store, &SystemClock).await;
    });
}
