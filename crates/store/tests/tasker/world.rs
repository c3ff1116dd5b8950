//! A store of its own with a few workers, in which chance does whatever can be done to workflows, and a
//! connection past it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;
use windlass_core::{
    By, Command, Json, Name, NewWorker, NewWorkflow, Outcome, Source, State, Steering, Task, TaskId,
    Timestamp, WORKFLOW, WorkerId, WorkflowId,
};
use windlass_store::conformance::{KIND, ad_hoc, completed, definition_of, expanded, finish, token};
use windlass_store::postgres::{Options, Schema};
use windlass_store::{
    Catalog, Claim, Claimed, Filter, Page, PostgresStore, Reads, Record, Store, WorkflowRecord, Writes,
};
use windlass_testbed::postgres::Server;

/// splitmix64: one number replays everything.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % u64::try_from(end.max(1)).unwrap()).unwrap()
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }
}

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::builder().setting("fsync", "off").start().expect("a server can be started"))
}

pub(crate) struct World {
    pub(crate) schema: String,
    pub(crate) store: PostgresStore,
    pub(crate) client: Client,
    pub(crate) worker: WorkerId,
    pub(crate) random: Random,
    pub(crate) workflows: Vec<WorkflowId>,
    held: Vec<Claimed>,
    started: u64,
}

impl World {
    pub(crate) async fn new(seed: u64) -> Self {
        static WORLDS: AtomicUsize = AtomicUsize::new(0);
        let schema = format!("world_{}", WORLDS.fetch_add(1, Ordering::Relaxed));
        let options = Options::new(&server().url()).unwrap().schema(Schema::new(&schema).unwrap());
        let store = options.open().await.unwrap();
        let kinds = vec![Name::kind(KIND).unwrap(), Name::stored(WORKFLOW)];
        // It sends no heartbeats, and the machine may be slow.
        let dead_after = Duration::from_secs(3600);
        let new = NewWorker { kinds, dead_after, ..NewWorker::new(WorkerId::new("worker").unwrap()) };
        let worker = store.register(new).await.unwrap().id;
        let (client, connection) = tokio_postgres::connect(&server().url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        // Called as the document does. The last makes times comparable: microseconds.
        let setting = format!(
            "SET search_path = {schema}_tasker, public;
            CREATE FUNCTION pg_temp.plain(told jsonb) RETURNS text LANGUAGE sql AS $$
                SELECT jsonb_object_agg(key, CASE WHEN jsonb_typeof(value) = 'string' AND key ~ '_(at|start)$'
                    THEN to_jsonb((extract(epoch FROM (value #>> '{{}}')::timestamptz) * 1000000)::bigint) ELSE value END)
                FROM jsonb_each(told) $$"
        );
        client.batch_execute(&setting).await.unwrap();
        let (random, workflows, held) = (Random(seed), Vec::new(), Vec::new());
        Self { schema, store, client, worker, random, workflows, held, started: 0 }
    }

    /// Rows of a query as objects, by column.
    pub(crate) async fn rows(&self, sql: &str) -> Vec<Value> {
        let sql = format!("SELECT pg_temp.plain(to_jsonb(r)) FROM ({sql}) r");
        let rows = self.client.query(&sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        rows.iter().map(|row| serde_json::from_str(row.get(0)).unwrap()).collect()
    }

    pub(crate) async fn row(&self, sql: &str) -> Value {
        let mut rows = self.rows(sql).await;
        assert_eq!(rows.len(), 1, "{sql}");
        rows.remove(0)
    }

    /// The only value of a query.
    pub(crate) async fn value(&self, sql: &str) -> Value {
        let row = self.row(&format!("SELECT {sql} AS it")).await;
        row["it"].clone()
    }

    /// The uuid of what only has a name, by what the server has on board.
    pub(crate) async fn named(&self, name: &str) -> Value {
        let sql = "SELECT substr(encode(sha256(convert_to($1, 'UTF8')), 'hex'), 1, 32)";
        let hex: String = self.client.query_one(sql, &[&name]).await.unwrap().get(0);
        json!(Uuid::try_parse(&hex).unwrap().to_string())
    }

    /// A workflow as the store tells it: with its tasks, in the order of their ids.
    pub(crate) async fn known(&self, id: WorkflowId) -> (WorkflowRecord, Vec<Record>) {
        let record = self.store.workflow(id).await.unwrap().unwrap();
        let mut ids: Vec<TaskId> = self.tasks(id).await.iter().map(|task| task.id).collect();
        ids.sort_unstable();
        let mut tasks = Vec::new();
        for id in ids {
            tasks.push(self.store.task(id).await.unwrap().unwrap());
        }
        (record, tasks)
    }

    pub(crate) async fn tasks(&self, id: WorkflowId) -> Vec<Task> {
        let filter = Filter { workflow: Some(id), ..Filter::default() };
        let listing = self.store.tasks(filter, Page { limit: 1000, ..Page::default() }).await.unwrap();
        assert!(listing.next.is_none());
        listing.tasks
    }

    pub(crate) async fn start(&mut self, mut new: NewWorkflow) {
        new.id = WorkflowId::new(Uuid::from_u128(
            0x0190_0000_0000_7000_8000_0000_0000_0000 | u128::from(self.started + 1) << 36,
        ));
        self.started += 1;
        if let Ok(started) = self.store.start(new).await {
            self.workflows.push(started.id);
        }
    }

    /// Whatever comes to mind.
    pub(crate) async fn act(&mut self) {
        match self.random.below(100) {
            0..12 => self.begin(None).await,
            12..40 => self.claim().await,
            40..75 => self.finish().await,
            75..80 => {
                let due = self.store.due(100).await.unwrap();
                self.store.apply(due.commands).await.unwrap();
            }
            80..90 => self.meddle().await,
            _ => self.steer().await,
        }
    }

    /// Up to six steps, each after some of those before it.
    fn flow(&mut self) -> Value {
        let names = ["a", "b", "c", "d", "e", "f"];
        let many = self.random.below(names.len() + 1);
        let mut steps = serde_json::Map::new();
        for (n, name) in names.iter().take(many).enumerate() {
            let needs: Vec<&str> = names[..n].iter().copied().filter(|_| self.random.chance(40)).collect();
            let least = 1 + self.random.below(needs.len());
            let join = match self.random.below(6) {
                0 => json!("any"),
                1 => json!("all_done"),
                2 if !needs.is_empty() => json!({ "at_least": least }),
                _ => json!("all"),
            };
            let delay = self.random.pick(&["1h", "90500ms", "1d"]);
            let most = 1 + self.random.below(3);
            let mut step = json!({ "needs": needs, "join": join, "retry": { "max_attempts": most, "initial": delay, "max": "7d" } });
            if self.random.chance(20) {
                step["lane"] = json!({ "key": "narrow", "limit": 1 });
            }
            if self.random.chance(10) {
                step["workflow"] = json!("inner");
            }
            steps.insert((*name).into(), step);
        }
        let on_failure = self.random.pick(&["fail_fast", "finish_independent", "finish_independent"]);
        let name = self.random.pick(&["one", "two"]);
        json!({ "name": name, "steps": steps, "on_failure": on_failure })
    }

    /// Starts a workflow, of a definition that is kept or of one of its own.
    async fn begin(&mut self, parent: Option<&Claimed>) {
        let flow = self.flow();
        let definition = definition_of(flow);
        let mut new = ad_hoc(0, definition.clone());
        if parent.is_none() && self.random.chance(10) {
            new.namespace = Name::namespace("tenant").unwrap();
        }
        if self.random.chance(60) {
            let name = definition.name.clone();
            let defined = self.store.define(new.namespace.clone(), definition).await.unwrap();
            new.source = Source::Named { name, version: Some(defined.version) };
        }
        new.priority = i32::try_from(self.random.below(5)).unwrap() - 2;
        new.input = Json::payload(self.random.pick(&["null", "{\"a\": 1}", "\"\\u0000\""])).unwrap();
        new.actor = self.random.pick(&[None, Some("ada".into())]);
        new.parent = parent.map(token);
        self.start(new).await;
    }

    async fn claim(&mut self) {
        let claim = Claim {
            worker: self.worker.clone(),
            namespace: Name::default(),
            queues: vec![Name::default()],
            kinds: vec![Name::kind(KIND).unwrap(), Name::stored(WORKFLOW)],
            limit: 1 + self.random.below(4),
        };
        let claimed = self.store.claim(claim).await.unwrap();
        for one in claimed {
            if self.random.chance(50) {
                self.apply(Command::Start { token: token(&one), at: None }).await;
            }
            self.held.push(one);
        }
    }

    async fn finish(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let at = self.random.below(self.held.len());
        let held = self.held.swap_remove(at);
        if *held.task.spec.kind == *WORKFLOW && self.random.chance(70) {
            return self.begin(Some(&held)).await;
        }
        let outcome = match self.random.below(20) {
            0..10 => {
                completed(self.random.pick(&["null", "{\"n\": 1}", "[1, \"x\"]", "\"\\u0000\"", "\"1e3\""]))
            }
            10..12 => expanded(&["1", "2", "3"][..1 + self.random.below(3)], None),
            12 => Outcome::Snoozed { delay: Duration::from_secs(3600) },
            13 => Outcome::Skipped { note: "not needed".into() },
            _ => Outcome::Failed {
                error: "broken".into(),
                retryable: self.random.chance(75),
                retry_after: self.random.pick(&[
                    None,
                    None,
                    Some(Duration::ZERO),
                    Some(Duration::from_secs(90)),
                ]),
            },
        };
        self.apply(finish(&held, outcome)).await;
    }

    /// What an operator does to one step.
    async fn meddle(&mut self) {
        let Some(id) = self.any() else { return };
        let tasks = self.tasks(id).await;
        if tasks.is_empty() {
            return;
        }
        let task = self.random.pick(&tasks).id;
        let by = By { actor: Some("ada".into()), note: self.random.pick(&[None, Some("well".into())]) };
        let command = match self.random.below(8) {
            6 | 7 => {
                let delay = self.random.pick(&[0, 90, 3600].map(Duration::from_secs));
                Command::Postpone { task, delay }
            }
            0 => Command::Cancel { task, by },
            1 => Command::Skip { task, by },
            2 => Command::Resolve { task, result: Some(Json::result("{\"by\": \"hand\"}").unwrap()), by },
            _ => Command::Retry { task, force: true, by },
        };
        self.apply(command).await;
    }

    async fn steer(&mut self) {
        let Some(id) = self.any() else { return };
        let steering = match self.random.below(10) {
            0 => Steering::Cancel,
            1 => Steering::Resolve,
            2..4 => Steering::Pause,
            4..8 => Steering::Resume,
            _ => Steering::GiveUp,
        };
        let note = self.random.pick(&[None, Some("so it is"), Some("{\"why\": [1]}"), Some("{no")]);
        let actor = self.random.pick(&["ada", "01890a5d-ac96-774b-bcce-b302099a8057"]);
        let by = By { actor: Some(actor.into()), note: note.map(Into::into) };
        // It may be over, or not blocked.
        let _ = self.store.steer(id, steering, by).await;
    }

    pub(crate) fn any(&mut self) -> Option<WorkflowId> {
        let many = self.workflows.len();
        (many > 0).then(|| self.workflows[self.random.below(many)])
    }

    /// Refused as often as not.
    async fn apply(&self, command: Command) {
        let _ = self.store.apply(vec![command]).await.unwrap();
    }
}

pub(crate) fn micros(at: Option<Timestamp>) -> Value {
    at.map_or(Value::Null, |at| json!(at.as_micros()))
}

/// A text of JSON as the document's columns show it.
pub(crate) fn shown(text: &Json) -> Value {
    let text = text.as_str();
    if text.contains("u0000") { json!(text) } else { serde_json::from_str(text).unwrap() }
}

pub(crate) fn is_done(state: State) -> bool {
    matches!(state, State::Completed | State::ResolvedManually)
}
