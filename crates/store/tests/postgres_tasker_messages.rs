//! Document 002's message queues, in SQL: what is sent is announced and read once at a time, and not before
//! its time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Mutex, mpsc};
use tokio_postgres::{AsyncMessage, Client, NoTls};
use windlass_store::postgres::{Options, Schema};
use windlass_store::{PostgresStore, Store};
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

type Hearing = mpsc::UnboundedReceiver<(String, Value)>;

/// A connection as any program has one, that finds the functions as the document calls them; and what it
/// hears.
struct Desk {
    schema: &'static str,
    /// A queue of this schema: channels are the database's, and others use them at the same time.
    queue: String,
    client: Client,
    hearing: Mutex<Hearing>,
}

impl Desk {
    /// A database with one queue, without a program of Windlass that runs.
    async fn new(schema: &'static str) -> Self {
        open(schema).await.close().await.unwrap();
        let desk = Self::at(schema).await;
        let made = desk.client.query_one("SELECT ensure_task_queue($1)", &[&desk.queue]).await.unwrap();
        assert!(made.get::<_, bool>(0));
        desk
    }

    /// One more connection.
    async fn at(schema: &'static str) -> Self {
        let (client, mut connection) = tokio_postgres::connect(&server().url(), NoTls).await.unwrap();
        let (heard, hearing) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(news) = message {
                    let payload = serde_json::from_str(news.payload()).expect("a payload is whole");
                    let _ = heard.send((news.channel().to_owned(), payload));
                }
            }
        });
        let settings = format!("SET search_path = {schema}_tasker, public; SET statement_timeout = '30s'");
        client.batch_execute(&settings).await.unwrap();
        Self { schema, queue: format!("{schema}_queue"), client, hearing: Mutex::new(hearing) }
    }

    async fn listen(&self) {
        let channels = format!("LISTEN pgmq_message_ready; LISTEN fence_{}", self.schema);
        self.client.batch_execute(&channels).await.unwrap();
    }

    async fn send(&self, message: &Value, delay: i32) -> i64 {
        let sql = "SELECT pgmq_send_with_notify($1, $2::text::jsonb, $3)";
        self.client.query_one(sql, &[&self.queue, &message.to_string(), &delay]).await.unwrap().get(0)
    }

    /// What a reader gets: ids, how often they were read, and messages.
    async fn read(&self, vt: i32, many: i32) -> Vec<(i64, i32, Value)> {
        let sql = "SELECT msg_id, read_ct, message::text FROM pgmq_read($1, $2, $3)";
        let rows = self.client.query(sql, &[&self.queue, &vt, &many]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1), serde_json::from_str(row.get(2)).unwrap())).collect()
    }

    /// How often a message was read, if this reader gets it.
    async fn read_one(&self, id: i64) -> Option<i32> {
        let sql = "SELECT read_ct FROM pgmq_read_specific_message($1, $2)";
        self.client.query_opt(sql, &[&self.queue, &id]).await.unwrap().map(|row| row.get(0))
    }

    async fn delete(&self, id: i64) -> bool {
        let sql = "SELECT pgmq_delete_specific_message($1, $2)";
        self.client.query_one(sql, &[&self.queue, &id]).await.unwrap().get(0)
    }

    async fn extend(&self, id: i64, seconds: i32) -> bool {
        let sql = "SELECT pgmq_extend_vt_specific_message($1, $2, $3)";
        self.client.query_one(sql, &[&self.queue, &id, &seconds]).await.unwrap().get(0)
    }

    /// Seconds for which a message stays hidden.
    async fn hidden_for(&self, id: i64) -> f64 {
        let sql = format!(
            "SELECT extract(epoch FROM vt - clock_timestamp())::float8 FROM {}.messages WHERE msg_id = $1",
            self.schema
        );
        self.client.query_one(&sql, &[&id]).await.unwrap().get(0)
    }

    /// Lets all time-outs be over.
    async fn time_out(&self) {
        let sql = format!("UPDATE {}.messages SET vt = '2020-01-01'", self.schema);
        self.client.batch_execute(&sql).await.unwrap();
    }

    /// What is announced next about the queues of this schema.
    async fn news(&self) -> (String, Value) {
        let mut hearing = self.hearing.lock().await;
        loop {
            let next = tokio::time::timeout(PATIENCE, hearing.recv()).await;
            let (channel, event) = next.expect("news in time").expect("a connection");
            let is_ours = event["queue_name"].as_str().is_none_or(|queue| queue.contains(self.schema));
            if is_ours {
                return (channel, event);
            }
        }
    }

    /// Whatever was announced until now.
    async fn all_news(&self) -> Vec<(String, Value)> {
        let fence = format!("fence_{}", self.schema);
        self.client.execute("SELECT pg_notify($1, '1')", &[&fence]).await.unwrap();
        let mut all = Vec::new();
        loop {
            match self.news().await {
                (channel, _) if channel == fence => return all,
                one => all.push(one),
            }
        }
    }

    /// Kills another's connection.
    async fn kill(&self, other: Self) {
        let pid: i32 = other.client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
        self.client.query_one("SELECT pg_terminate_backend($1, 30000)", &[&pid]).await.unwrap();
    }

    /// The code that a call is refused with.
    async fn refusal(&self, sql: &str) -> String {
        let error = self.client.batch_execute(sql).await.expect_err(sql);
        error.as_db_error().expect("the server answered").code().code().to_owned()
    }
}

#[test]
fn a_message_is_announced_on_both_channels_with_its_commit() {
    runtime().block_on(async {
        let desk = Desk::new("announced").await;
        desk.listen().await;
        desk.client.batch_execute("LISTEN \"pgmq_message_ready.announced\"; BEGIN").await.unwrap();
        desk.send(&json!("never"), 0).await;
        desk.client.batch_execute("ROLLBACK").await.unwrap();
        desk.client.batch_execute("LISTEN \"pgmq_message_ready.announced\"").await.unwrap();
        assert!(desk.all_news().await.is_empty(), "what is undone was never there");
        assert!(desk.read(30, 10).await.is_empty());
        desk.client.batch_execute("BEGIN").await.unwrap();
        let id = desk.send(&json!({ "amount": 3 }), 0).await;
        let other = Desk::at("announced").await;
        assert!(other.read(30, 10).await.is_empty(), "not before the commit");
        desk.client.batch_execute("COMMIT").await.unwrap();
        for channel in ["pgmq_message_ready.announced", "pgmq_message_ready"] {
            let (heard, event) = desk.news().await;
            assert_eq!(heard, channel);
            assert!(event["ready_at"].is_string(), "{event}");
            assert_eq!(
                event,
                json!({
                    "event_type": "message_ready", "msg_id": id, "queue_name": desk.queue,
                    "namespace": "announced", "ready_at": event["ready_at"], "delay_seconds": 0,
                    "message": { "amount": 3 },
                })
            );
        }
        assert_eq!(other.read(30, 10).await, [(id, 1, json!({ "amount": 3 }))]);
    });
}

/// A notification holds less than 8,000 bytes. Whatever the message, it is whole or left out.
#[test]
fn no_announcement_is_cut() {
    runtime().block_on(async {
        let desk = Desk::new("large").await;
        desk.listen().await;
        // Characters of one, two, three and four bytes, and some that JSON writes as more than they are.
        for unit in ["x", "é", "漢", "😀", "\"", "\u{1}"] {
            for many in [1, 900, 1_900, 2_600, 3_400, 3_900, 6_900, 6_997, 6_998, 6_999, 9_000, 100_000] {
                let message = json!(unit.repeat(many));
                let id = desk.send(&message, 0).await;
                let (_, event) = desk.news().await;
                assert_eq!((&event["msg_id"], &event["event_type"]), (&json!(id), &json!("message_ready")));
                let text = message.to_string();
                let is_whole = event.get("message").is_some();
                assert_eq!(event.get("payload_omitted").is_some(), !is_whole, "{unit:?} times {many}");
                assert!(!is_whole || event["message"] == message, "{unit:?} times {many}");
                let (small, large) = (text.len() < 6_000, text.chars().count() >= 7_000);
                assert!(is_whole || !small, "{unit:?} times {many} has room");
                assert!(!is_whole || !large, "{unit:?} times {many} is too much");
                assert_eq!(desk.read(30, 1).await, [(id, 1, message)]);
                assert!(desk.delete(id).await);
            }
        }
    });
}

/// C54: not at once, but when it can be read; and once, however many programs are there to do it.
#[test]
fn a_delayed_message_is_announced_when_its_time_has_come() {
    runtime().block_on(async {
        let desk = Desk::new("delayed").await;
        desk.listen().await;
        let (_one, _other) = (open("delayed").await, open("delayed").await);
        let far = desk.send(&json!("far"), 3600).await;
        let ids = [desk.send(&json!(1), 1).await, desk.send(&json!(2), 2).await];
        assert!(desk.all_news().await.is_empty(), "not at once");
        assert_eq!(desk.read_one(ids[0]).await, None, "nor to be read");
        for (id, delay) in ids.into_iter().zip(1..) {
            let (_, event) = desk.news().await;
            assert_eq!((&event["msg_id"], &event["delay_seconds"]), (&json!(id), &json!(delay)));
            assert_eq!(desk.read_one(id).await, Some(1), "who hears of it can read it");
        }
        assert!(desk.all_news().await.is_empty(), "each once");
        assert_eq!(desk.read_one(far).await, None);
    });
}

/// Where no program of Windlass runs, somebody else may call. What was read meanwhile needs no announcement.
#[test]
fn due_messages_are_announced_once() {
    runtime().block_on(async {
        let desk = Desk::new("by_hand").await;
        desk.listen().await;
        let announce = async || -> i64 {
            desk.client.query_one("SELECT pgmq_announce_due()", &[]).await.unwrap().get(0)
        };
        let mut ids = Vec::new();
        for n in 0..1200 {
            ids.push(desk.send(&json!(n), 3600).await);
        }
        assert_eq!(announce().await, 0);
        desk.time_out().await;
        assert_eq!(desk.read_one(ids[3]).await, Some(1));
        assert_eq!((announce().await, announce().await, announce().await), (1000, 199, 0));
        let heard = desk.all_news().await;
        let mut heard: Vec<i64> = heard.iter().map(|(_, event)| event["msg_id"].as_i64().unwrap()).collect();
        heard.sort_unstable();
        ids.remove(3);
        assert_eq!(heard, ids);
    });
}

#[test]
fn a_message_is_hidden_while_it_is_read_and_there_again_afterwards() {
    runtime().block_on(async {
        let desk = Desk::new("hidden").await;
        let ids = [desk.send(&json!(1), 0).await, desk.send(&json!(2), 0).await];
        assert_eq!(desk.read(30, 1).await, [(ids[0], 1, json!(1))], "in the order of sending");
        assert_eq!(desk.read_one(ids[0]).await, None);
        assert_eq!(desk.read(30, 10).await, [(ids[1], 1, json!(2))]);
        assert!(desk.read(30, 10).await.is_empty());
        desk.time_out().await;
        assert_eq!(desk.read_one(ids[1]).await, Some(2));
        assert_eq!(desk.read(30, 10).await, [(ids[0], 2, json!(1))]);
        // Longer than until now, and from now on if it is there again.
        assert!(desk.extend(ids[0], 60).await);
        let left = desk.hidden_for(ids[0]).await;
        assert!((60.0..=90.0).contains(&left), "{left}");
        desk.time_out().await;
        assert!(desk.extend(ids[0], 60).await);
        let left = desk.hidden_for(ids[0]).await;
        assert!((30.0..=60.0).contains(&left), "{left}");
        assert_eq!(desk.read_one(ids[0]).await, None);
        assert!(desk.delete(ids[0]).await && !desk.delete(ids[0]).await);
        assert!(!desk.extend(ids[0], 60).await);
        desk.time_out().await;
        assert_eq!(desk.read(30, 10).await, [(ids[1], 3, json!(2))], "what is deleted is gone");
    });
}

/// Many readers at once: each message is read by one.
#[test]
fn readers_do_not_get_the_same_message() {
    runtime().block_on(async {
        let desk = Desk::new("readers").await;
        let mut readers = Vec::new();
        for _ in 0..4 {
            readers.push(Desk::at("readers").await);
        }
        for _ in 0..25 {
            let id = desk.send(&json!(1), 0).await;
            let [a, b, c, d] = &readers[..] else { unreachable!() };
            let got = tokio::join!(a.read_one(id), b.read_one(id), c.read_one(id), d.read_one(id));
            let got = [got.0, got.1, got.2, got.3];
            assert_eq!(got.iter().flatten().count(), 1, "{got:?}");
            assert!(desk.delete(id).await);
        }
        let mut ids = Vec::new();
        for n in 0..300 {
            ids.push(desk.send(&json!(n), 0).await);
        }
        let reading = readers.into_iter().map(|reader| {
            tokio::spawn(async move {
                let mut got = Vec::new();
                loop {
                    let some = reader.read(30, 7).await;
                    if some.is_empty() {
                        return got;
                    }
                    got.extend(some.into_iter().map(|(id, times, _)| (id, times)));
                }
            })
        });
        let mut got: BTreeMap<i64, i32> = BTreeMap::new();
        for reading in reading.collect::<Vec<_>>() {
            for (id, times) in reading.await.unwrap() {
                assert_eq!(got.insert(id, times), None, "{id} was read twice");
            }
        }
        assert!(got.values().all(|times| *times == 1));
        assert_eq!(got.into_keys().collect::<Vec<_>>(), ids);
    });
}

/// A reader that is killed before its commit has read nothing; after it, the message is there again in time.
/// A sender that is killed has sent nothing.
#[test]
fn nothing_is_lost_with_a_connection() {
    runtime().block_on(async {
        let desk = Desk::new("killed").await;
        desk.listen().await;
        let id = desk.send(&json!(1), 0).await;
        desk.news().await;
        let reader = Desk::at("killed").await;
        reader.client.batch_execute("BEGIN").await.unwrap();
        assert_eq!(reader.read_one(id).await, Some(1));
        assert_eq!(desk.read_one(id).await, None, "it is being read");
        desk.kill(reader).await;
        let sender = Desk::at("killed").await;
        sender.client.batch_execute("BEGIN").await.unwrap();
        sender.send(&json!(2), 0).await;
        desk.kill(sender).await;
        let reader = Desk::at("killed").await;
        assert_eq!(reader.read_one(id).await, Some(1), "read for the first time");
        desk.kill(reader).await;
        assert!(desk.read(30, 10).await.is_empty(), "its time-out goes on");
        desk.time_out().await;
        assert_eq!(desk.read(30, 10).await, [(id, 2, json!(1))]);
        assert!(desk.all_news().await.is_empty());
    });
}

#[test]
fn what_cannot_be_is_refused() {
    runtime().block_on(async {
        let desk = Desk::new("refused").await;
        desk.listen().await;
        let calls = [
            "pgmq_send_with_notify(NAME, '1')",
            "pgmq_read(NAME)",
            "pgmq_read_specific_message(NAME, 1)",
            "pgmq_delete_specific_message(NAME, 1)",
            "pgmq_extend_vt_specific_message(NAME, 1)",
            "get_queue_statistics(NAME)",
        ];
        let long = format!("'{}'", "x".repeat(48));
        let names = ["'a-b'", "''", "'a b'", "'a\"; DROP TABLE x'", "'é'", "NULL", &long, "E'a\\n'"];
        let code = async |call: &str| desk.refusal(&format!("SELECT * FROM {call}")).await;
        for call in calls {
            for name in names {
                assert_eq!(code(&call.replace("NAME", name)).await, "22023", "{call} with {name}");
            }
            assert_eq!(code(&call.replace("NAME", "'nobody_queue'")).await, "42704", "{call}");
        }
        for name in names {
            assert_eq!(code(&format!("ensure_task_queue({name})")).await, "22023", "{name}");
        }
        for call in [
            "pgmq_send_with_notify('refused_queue', '1', -1)",
            "pgmq_send_with_notify('refused_queue', NULL)",
            "pgmq_read('refused_queue', -1)",
            "pgmq_read('refused_queue', 30, 0)",
            "pgmq_read('refused_queue', 30, 1001)",
            "pgmq_read_specific_message('refused_queue', 1, NULL)",
            "pgmq_extend_vt_specific_message('refused_queue', 1, -1)",
        ] {
            assert_eq!(code(call).await, "22023", "{call}");
        }
        assert!(desk.all_news().await.is_empty());
        let longest = format!("refused{}_queue", "x".repeat(34));
        desk.client.query_one("SELECT ensure_task_queue($1)", &[&longest]).await.unwrap();
        desk.client.query_one("SELECT pgmq_send_with_notify($1, '1')", &[&longest]).await.unwrap();
        assert_eq!(desk.all_news().await.len(), 1, "the longest name has a channel, too");
    });
}

#[test]
fn statistics_of_a_queue() {
    runtime().block_on(async {
        let desk = Desk::new("counted").await;
        let told = async || {
            let row = desk
                .client
                .query_one("SELECT * FROM get_queue_statistics($1)", &[&desk.queue])
                .await
                .unwrap();
            let columns: Vec<_> = row.columns().iter().map(|column| column.name().to_owned()).collect();
            assert_eq!(
                columns,
                ["queue_name", "queue_length", "oldest_msg_age_seconds", "newest_msg_age_seconds"]
            );
            (
                row.get::<_, String>(0),
                row.get::<_, i64>(1),
                row.get::<_, Option<i32>>(2),
                row.get::<_, Option<i32>>(3),
            )
        };
        assert_eq!(told().await, (desk.queue.clone(), 0, None, None));
        let ids =
            [desk.send(&json!(1), 0).await, desk.send(&json!(2), 0).await, desk.send(&json!(3), 9).await];
        for (id, age) in ids.iter().zip(["100", "70", "40"]) {
            let sql = format!(
                "UPDATE counted.messages SET enqueued_at = now() - interval '{age} s' WHERE msg_id = $1"
            );
            desk.client.execute(&sql, &[id]).await.unwrap();
        }
        desk.read(30, 1).await;
        let (_, length, oldest, newest) = told().await;
        assert_eq!(length, 3, "hidden ones are counted");
        assert!((100..130).contains(&oldest.unwrap()) && (40..70).contains(&newest.unwrap()));
        desk.delete(ids[0]).await;
        let (_, length, oldest, _) = told().await;
        assert_eq!(length, 2);
        assert!((70..100).contains(&oldest.unwrap()));
    });
}

#[test]
fn the_namespace_of_a_queue_is_in_its_name() {
    runtime().block_on(async {
        let desk = Desk::new("named").await;
        for (name, namespace) in [
            ("orchestration", "orchestration"),
            ("orchestration_step_results_queue", "orchestration"),
            ("orchestrations_queue", "orchestrations"),
            ("worker_billing_queue", "billing"),
            ("worker_a_b_queue", "a_b"),
            ("worker_queue", "worker"),
            ("worker__queue", "worker_"),
            ("billing_queue", "billing"),
            ("Billing_2_queue", "Billing_2"),
            ("2_queue", "default"),
            ("_queue", "default"),
            ("queue", "default"),
            ("billing", "default"),
            ("billing_queue2", "default"),
            ("", "default"),
        ] {
            let row = desk.client.query_one("SELECT extract_queue_namespace($1)", &[&name]).await.unwrap();
            assert_eq!(row.get::<_, String>(0), namespace, "{name}");
        }
    });
}

/// Calling is a right that is given; what the functions touch is not.
#[test]
fn who_may_call_may_not_do_more() {
    runtime().block_on(async {
        let desk = Desk::new("guarded").await;
        let make = "CREATE ROLE clerk; GRANT USAGE ON SCHEMA guarded_tasker TO clerk";
        desk.client.batch_execute(make).await.unwrap();
        let clerk = Desk::at("guarded").await;
        clerk.client.batch_execute("SET ROLE clerk").await.unwrap();
        let sends = "SELECT pgmq_send_with_notify('guarded_queue', '1')";
        assert_eq!(clerk.refusal(sends).await, "42501");
        desk.client.batch_execute("GRANT EXECUTE ON FUNCTION pgmq_send_with_notify TO clerk").await.unwrap();
        clerk.client.batch_execute(sends).await.unwrap();
        for refused in [
            "SELECT * FROM guarded.messages",
            "SELECT * FROM pgmq_read('guarded_queue')",
            "SELECT * FROM pgmq_read_specific_message('guarded_queue', 1)",
            "SELECT pgmq_delete_specific_message('guarded_queue', 1)",
            "SELECT pgmq_extend_vt_specific_message('guarded_queue', 1)",
            "SELECT pgmq_announce_due()",
            "SELECT ensure_task_queue('guarded_queue')",
            "SELECT get_queue_statistics('guarded_queue')",
            "SELECT transition_task_state_atomic(NULL, NULL, NULL, NULL)",
            "SELECT finalize_task_completion(NULL)",
            "SELECT set_step_backoff_atomic(NULL, NULL)",
        ] {
            assert_eq!(clerk.refusal(refused).await, "42501", "{refused}");
        }
    });
}
