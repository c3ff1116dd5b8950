//! Document 002's functions that change workflows, in SQL: they do what the store does, or nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, missing_docs)]

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;
use windlass_core::{
    Activity, By, Command, Json, Lane, Name, NewTask, NewWorker, NewWorkflow, Outcome, Place, Source, State,
    Steering, Task, TaskId, Timestamp, WorkerId, Workflow, WorkflowId, WorkflowState,
};
use windlass_store::conformance::{
    KIND, completed, definition_of, expanded, failed, failed_for_good, finish, invariants, token,
};
use windlass_store::postgres::{Options, Schema};
use windlass_store::{Claim, Claimed, Filter, Page, PostgresStore, Reads, Rings, Store, SystemClock, Writes};
use windlass_testbed::postgres::Server;

/// Longer than anything here takes, so that a test which waits in vain fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a transition made in SQL holds.
const HOLD: Duration = Duration::from_secs(30);

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::builder().setting("fsync", "off").start().expect("a server can be started"))
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A connection past the store, as any program has one, that finds the functions as the document calls them.
async fn connect(schema: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(&server().url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let settings = format!("SET search_path = {schema}_tasker, public; SET statement_timeout = '30s'");
    client.batch_execute(&settings).await.unwrap();
    client
}

/// A store with one worker, and a connection past it.
struct Desk {
    schema: &'static str,
    store: PostgresStore,
    worker: WorkerId,
    client: Client,
}

impl Desk {
    async fn new(schema: &'static str) -> Self {
        let options = Options::new(&server().url()).unwrap().schema(Schema::new(schema).unwrap());
        let store = options.open().await.unwrap();
        let kinds = vec![Name::kind(KIND).unwrap()];
        // It sends no heartbeats, and the machine may be slow.
        let dead_after = Duration::from_secs(3600);
        let new = NewWorker { kinds, dead_after, ..NewWorker::new(WorkerId::new("worker").unwrap()) };
        let worker = store.register(new).await.unwrap().id;
        Self { schema, store, worker, client: connect(schema).await }
    }

    async fn start(&self, namespace: &str, steps: &Value) -> WorkflowId {
        let definition = definition_of(json!({ "name": "flow", "steps": steps }));
        let mut new = NewWorkflow::new(fresh_id(), Source::AdHoc(Box::new(definition)), Json::default());
        new.namespace = name(namespace);
        self.store.start(new).await.unwrap().id
    }

    async fn claim(&self, namespace: &str, limit: usize) -> Vec<Claimed> {
        let claim = Claim {
            worker: self.worker.clone(),
            namespace: name(namespace),
            queues: vec![Name::default()],
            kinds: vec![Name::kind(KIND).unwrap()],
            limit,
        };
        self.store.claim(claim).await.unwrap()
    }

    async fn apply(&self, command: Command) -> Result<State, &'static str> {
        let mut told = self.store.apply(vec![command]).await.unwrap();
        told.remove(0).map(|receipt| receipt.state).map_err(|rejected| rejected.code())
    }

    async fn workflow(&self, id: WorkflowId) -> Workflow {
        self.store.workflow(id).await.unwrap().unwrap().workflow
    }

    async fn move_in_sql(&self, id: WorkflowId, from: &str, to: &str, by: Uuid, note: &Value) -> bool {
        transition(&self.client, id, from, to, Some(by), note).await
    }

    /// Everything that is to be found of a namespace, without what differs between twins: ids and moments.
    async fn picture(&self, namespace: &str, ids: &[WorkflowId]) -> String {
        let mut lines = Vec::new();
        for id in ids {
            let record = self.store.workflow(*id).await.unwrap().unwrap();
            let Workflow { state, paused, counts, retries, owner, entries, .. } = record.workflow;
            let owner = owner.map(|(owner, _)| owner);
            lines.push(format!("{id}: {state} {paused} {counts:?} {retries} {owner:?} {entries}"));
            for entry in record.history {
                lines.push(format!("  {} {:?} {:?}", entry.to, entry.actor, entry.note));
            }
        }
        for task in self.tasks(namespace).await {
            let record = self.store.task(task.id).await.unwrap().unwrap();
            let status = task.status;
            let moments = [status.due_at, status.claimed_at, status.started_at, status.finished_at];
            let moments = moments.map(|moment| moment.is_some());
            lines.push(format!(
                "{}: {} {} {} {:?} {moments:?} {:?} {} {} {:?} {:?}",
                if task.spec.workflow.is_some() { task.id.to_string() } else { "lone".into() },
                status.state,
                status.attempt,
                status.lease,
                status.worker,
                status.error,
                status.slot,
                status.entries,
                status.waits,
                record.result
            ));
            for entry in record.history {
                lines.push(format!("  {} {} {:?} {:?}", entry.to, entry.reason, entry.actor, entry.note));
            }
        }
        for count in self.store.counts().await.unwrap().iter().filter(|count| &*count.namespace == namespace)
        {
            lines.push(format!("{} {} {} {}", count.kind, count.is_step, count.state, count.tasks));
        }
        let counts = self.store.workflow_counts().await.unwrap();
        for count in counts.iter().filter(|count| &*count.namespace == namespace) {
            lines.push(format!("{} {} {}", count.name, count.state, count.workflows));
        }
        let mut text = lines.join("\n");
        for (n, id) in ids.iter().enumerate() {
            text = text.replace(&id.to_string()[..27], &format!("workflow {n} "));
        }
        text
    }

    async fn tasks(&self, namespace: &str) -> Vec<Task> {
        let filter = Filter { namespace: Some(name(namespace)), ..Filter::default() };
        let page = Page { limit: 1000, after: None, oldest_first: true };
        self.store.tasks(filter, page).await.unwrap().tasks
    }

    /// Everything that a change writes, of all namespaces.
    async fn rows(&self) -> String {
        let mut all = String::new();
        for table in [
            "workflows",
            "workflow_history",
            "workflow_counts",
            "live",
            "ended",
            "history_rows",
            "counts",
            "activity",
        ] {
            let sql = format!(
                "SELECT coalesce(string_agg(t::text, E'\\n' ORDER BY t::text), '') FROM {}.{table} t",
                self.schema
            );
            all += self.client.query_one(&sql, &[]).await.unwrap().get::<_, &str>(0);
        }
        all
    }

    async fn check(&self) {
        invariants::check(&self.store, &SystemClock).await;
    }
}

async fn transition(
    client: &Client,
    id: WorkflowId,
    from: &str,
    to: &str,
    by: Option<Uuid>,
    note: &Value,
) -> bool {
    let sql = "SELECT transition_task_state_atomic($1, $2, $3, $4, $5::text::jsonb)";
    client.query_one(sql, &[&wide(id), &from, &to, &by, &note.to_string()]).await.unwrap().get(0)
}

async fn finalize(client: &Client, id: WorkflowId) -> bool {
    client.query_one("SELECT finalize_task_completion($1)", &[&wide(id)]).await.unwrap().get(0)
}

async fn set_backoff(client: &Client, step: TaskId, seconds: Option<i32>) -> bool {
    let step = Uuid::from_bytes(*step.as_bytes());
    client.query_one("SELECT set_step_backoff_atomic($1, $2)", &[&step, &seconds]).await.unwrap().get(0)
}

fn name(text: &str) -> Name {
    Name::queue(text).unwrap()
}

fn wide(id: WorkflowId) -> Uuid {
    Uuid::from_bytes(*id.as_bytes())
}

/// A workflow's id that no text but its own begins with.
fn fresh_id() -> WorkflowId {
    static IDS: AtomicU64 = AtomicU64::new(1);
    let n = u128::from(IDS.fetch_add(1, Ordering::Relaxed));
    WorkflowId::from_bytes((0x0190_0000_0000_7000_8000_u128 << 48 | n << 48 | 0xab << 40).to_be_bytes())
}

/// A source of chance that repeats itself.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ z >> 31) % u64::try_from(most).unwrap()).unwrap()
    }

    fn of(&mut self, hundred: usize) -> bool {
        self.below(100) < hundred
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
}

fn seed() -> u64 {
    let given = std::env::var("WINDLASS_SEED").ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        u64::try_from(now.as_micros()).unwrap()
    })
}

/// Up to five steps, each needing some of those before it, some of them in lanes.
fn random_steps(chance: &mut Chance) -> Value {
    let names = ["a", "b", "c", "d", "e"];
    let mut steps = json!({});
    for n in 0..1 + chance.below(5) {
        let needs: Vec<&str> = names[..n].iter().copied().filter(|_| chance.of(40)).collect();
        let join = if needs.is_empty() { "all" } else { chance.pick(&["all", "all", "any", "all_done"]) };
        let retry = json!({ "max_attempts": 1 + chance.below(3), "initial": "1h", "max": "1h" });
        steps[names[n]] = json!({ "needs": needs, "join": join, "retry": retry });
        if chance.of(35) {
            steps[names[n]]["lane"] = json!({ "key": "lane", "limit": 1 + chance.below(2) });
        }
    }
    steps
}

/// Two workflows that are the same but for their ids and moments, each alone in a namespace.
struct Twins {
    spaces: [String; 2],
    ids: [Vec<WorkflowId>; 2],
    held: Vec<[Claimed; 2]>,
}

impl Twins {
    async fn new(desk: &Desk, chance: &mut Chance, n: usize) -> Self {
        let spaces = ["a", "b"].map(|twin| format!("{twin}{n}"));
        let steps = random_steps(chance);
        let mut ids = [Vec::new(), Vec::new()];
        // A task that waits in the lane, or holds it, is none of the workflow's.
        let lone = chance.of(60);
        for (space, ids) in spaces.iter().zip(&mut ids) {
            ids.push(desk.start(space, &steps).await);
            if lone {
                let mut new =
                    NewTask::new(TaskId::new(wide(fresh_id())), Name::kind(KIND).unwrap(), Json::default());
                (new.namespace, new.lane) = (name(space), Some(Lane::new("lane", 1).unwrap()));
                desk.store.submit(vec![new]).await.unwrap();
            }
        }
        Self { spaces, ids, held: Vec::new() }
    }

    /// Does something to both.
    async fn act(&mut self, desk: &Desk, chance: &mut Chance) {
        match chance.below(20) {
            0..7 => {
                let many = 1 + chance.below(2);
                let a = desk.claim(&self.spaces[0], many).await;
                let b = desk.claim(&self.spaces[1], many).await;
                assert_eq!(a.len(), b.len(), "twins are alike");
                self.held.extend(a.into_iter().zip(b).map(|(a, b)| [a, b]));
            }
            7..14 if !self.held.is_empty() => self.finish(desk, chance).await,
            14 => {
                let (step, by) = (self.a_step(chance), By::default);
                let makes: [fn(TaskId, By) -> Command; 4] = [
                    |task, by| Command::Cancel { task, by },
                    |task, by| Command::Skip { task, by },
                    |task, by| Command::Resolve { task, result: None, by },
                    |task, by| Command::Retry { task, force: true, by },
                ];
                let make = chance.pick(&makes);
                self.both(desk, |twin| make(step[twin], by())).await;
            }
            15 | 16 => {
                let steering = chance.pick(&[Steering::Pause, Steering::Resume]);
                for ids in &self.ids {
                    let _ = desk.store.steer(ids[0], steering.clone(), By::default()).await;
                }
            }
            17..19 => {
                let to = chance.pick(&[WorkflowState::EvaluatingResults, WorkflowState::EnqueuingSteps]);
                let owner = chance.pick(&OWNERS).to_string();
                for ids in &self.ids {
                    let from = desk.workflow(ids[0]).await.state;
                    let steering = Steering::Move { from, to, owner: owner.clone(), hold: HOLD };
                    let _ = desk.store.steer(ids[0], steering, By::default()).await;
                }
            }
            _ => {}
        }
    }

    async fn finish(&mut self, desk: &Desk, chance: &mut Chance) {
        let held = self.held.swap_remove(chance.below(self.held.len()));
        let is_step = held[0].task.spec.workflow.is_some();
        let is_item = is_step && Place::of(held[0].task.id).item.is_some();
        let outcome = match chance.below(12) {
            0..5 => completed("[1]"),
            5 | 6 => failed("broken"),
            7 => failed_for_good("broken"),
            8 => Outcome::Snoozed { delay: Duration::from_secs(3600) },
            9 if is_step && !is_item => expanded(&["1", "2", "3"], chance.pick(&[None, Some(1)])),
            10 if is_step => {
                for (twin, space) in self.spaces.iter().enumerate() {
                    let definition = definition_of(json!({ "name": "within", "steps": { "x": {} } }));
                    let source = Source::AdHoc(Box::new(definition));
                    let mut new = NewWorkflow::new(fresh_id(), source, Json::default());
                    (new.namespace, new.parent) = (name(space), Some(token(&held[twin])));
                    let started = desk.store.start(new).await;
                    self.ids[twin].extend(started.ok().filter(|it| it.created).map(|it| it.id));
                }
                return;
            }
            _ => {
                self.both(desk, |twin| Command::Start { token: token(&held[twin]), at: None }).await;
                self.held.push(held);
                return;
            }
        };
        self.both(desk, |twin| finish(&held[twin], outcome.clone())).await;
    }

    fn a_step(&self, chance: &mut Chance) -> [TaskId; 2] {
        let step = u32::try_from(chance.below(5)).unwrap();
        [self.ids[0][0].step(step), self.ids[1][0].step(step)]
    }

    async fn both(&self, desk: &Desk, make: impl Fn(usize) -> Command) {
        let told = [desk.apply(make(0)).await, desk.apply(make(1)).await];
        assert_eq!(told[0], told[1], "twins are alike: {:?}", make(0));
    }

    async fn compare(&self, desk: &Desk, when: &str) {
        let [a, b] = [0, 1];
        let one = desk.picture(&self.spaces[a], &self.ids[a]).await;
        let other = desk.picture(&self.spaces[b], &self.ids[b]).await;
        let differ = one.lines().zip(other.lines()).find(|(one, other)| one != other);
        assert!(one == other, "{when}: the store's on the left, SQL's on the right: {differ:#?}");
    }
}

const OWNERS: [Uuid; 2] = [Uuid::from_u128(0xa1), Uuid::from_u128(0xb2)];

/// What the store and SQL do with the same transition of twins is the same, or both refuse and SQL has
/// written nothing.
#[test]
fn a_transition_in_sql_is_the_stores_own() {
    let seed = seed();
    println!("WINDLASS_SEED={seed}");
    let mut chance = Chance(seed);
    runtime().block_on(async {
        let desk = Desk::new("twins").await;
        let mut seen: BTreeMap<(WorkflowState, bool), u32> = BTreeMap::new();
        let mut put_off: BTreeMap<bool, u32> = BTreeMap::new();
        for n in 0..40 {
            let mut twins = Twins::new(&desk, &mut chance, n).await;
            for _ in 0..chance.below(12) {
                twins.act(&desk, &mut chance).await;
            }
            twins.compare(&desk, "before").await;
            for _ in 0..3 {
                put_off_both(&desk, &mut chance, &twins, &mut put_off).await;
            }
            for _ in 0..4 {
                put_off_both(&desk, &mut chance, &twins, &mut put_off).await;
                move_both(&desk, &mut chance, &twins, &mut seen).await;
            }
        }
        println!("{seen:?}, put off: {put_off:?}");
        assert!(put_off.contains_key(&true) && put_off.contains_key(&false), "{put_off:?}");
        for state in [WorkflowState::Cancelled, WorkflowState::EvaluatingResults] {
            assert!(seen.contains_key(&(state, true)) && seen.contains_key(&(state, false)), "{seen:?}");
        }
        let sql = "SELECT id, twins.state_by_steps(w) FROM twins.workflows w";
        for row in desk.client.query(sql, &[]).await.unwrap() {
            let workflow = desk.workflow(WorkflowId::new(row.get(0))).await;
            assert_eq!(row.get::<_, &str>(1), WorkflowState::of(&workflow.counts).word(), "{workflow:?}");
        }
        desk.check().await;
    });
}

/// 2.11: the same wait for a step, by the store and in SQL; or both refuse, and nothing is written.
async fn put_off_both(desk: &Desk, chance: &mut Chance, twins: &Twins, seen: &mut BTreeMap<bool, u32>) {
    let tasks = desk.tasks(&twins.spaces[0]).await;
    let waiting = tasks.iter().filter(|task| task.status.state == State::WaitingForRetry);
    let any: Vec<_> = if chance.of(70) { waiting.collect() } else { tasks.iter().collect() };
    let steps = any.into_iter().filter(|task| task.spec.workflow.is_some());
    let steps: Vec<TaskId> = steps.map(|task| task.id).collect();
    if steps.is_empty() {
        return;
    }
    let task = chance.pick(&steps);
    let of = twins.ids[0].iter().position(|id| *id == WorkflowId::of(task)).unwrap();
    let twin = twins.ids[1][of].task(Place::of(task));
    let (seconds, waits) = chance.pick(&[(0, 0), (1, 1), (90, 90), (i32::MAX, 30 * 24 * 3600)]);
    let (rows, earliest) = (desk.rows().await, desk.store.now().await.unwrap());
    let delay = Duration::from_secs(u64::try_from(seconds).unwrap());
    let told = desk.apply(Command::Postpone { task, delay }).await;
    let done = set_backoff(&desk.client, twin, Some(seconds)).await;
    let latest = desk.store.now().await.unwrap();
    let when = format!("{task} put off by {seconds} s");
    *seen.entry(done).or_default() += 1;
    if done {
        assert_eq!(told, Ok(State::WaitingForRetry), "{when}");
        for task in [task, twin] {
            let due = desk.store.task(task).await.unwrap().unwrap().task.status.due_at.unwrap();
            let wait = Duration::from_secs(waits);
            assert!(earliest.plus(wait) <= due && due <= latest.plus(wait), "{when}: {due}");
        }
    } else {
        assert_eq!(told, Err("not_retrying"), "{when}");
        assert_eq!(desk.rows().await, rows, "{when}: what was refused wrote nothing");
    }
    twins.compare(desk, &when).await;
}

async fn move_both(
    desk: &Desk,
    chance: &mut Chance,
    twins: &Twins,
    seen: &mut BTreeMap<(WorkflowState, bool), u32>,
) {
    let which = chance.below(twins.ids[0].len());
    let [a, b] = [twins.ids[0][which], twins.ids[1][which]];
    if chance.of(15) {
        let sql = format!(
            "UPDATE {}.workflows SET owned_until = clock_timestamp() WHERE owner IS NOT NULL",
            desk.schema
        );
        desk.client.batch_execute(&sql).await.unwrap();
    }
    let before = desk.workflow(b).await;
    let from = if chance.of(90) { before.state } else { chance.pick(&WorkflowState::ALL) };
    let legal: Vec<_> = WorkflowState::ALL.into_iter().filter(|to| from.may_become(*to)).collect();
    let any = legal.is_empty() || chance.of(15);
    let to = if any { chance.pick(&WorkflowState::ALL) } else { chance.pick(&legal) };
    let (owner, note) = (chance.pick(&OWNERS), chance.pick(&[json!({}), json!({ "why": "déjà vu" })]));
    let when = format!("{from} to {to} by {owner} with {note}, where it is {before:?}");
    // Each of the twins is in a namespace of its own.
    let spaces = [desk.workflow(a).await.namespace, before.namespace.clone()];
    let activity_of =
        async |which: usize| desk.store.activity(Timestamp::MIN, Some(spaces[which].clone())).await.unwrap();
    let (rows, activity) = (desk.rows().await, activity_of(1).await);
    let moved = desk.move_in_sql(b, from.word(), to.word(), owner, &note).await;
    *seen.entry((to, moved)).or_default() += 1;
    if !moved {
        assert_eq!(desk.rows().await, rows, "{when}: what was refused wrote nothing");
    }
    let done_in_sql = since(&activity, &activity_of(1).await);
    let is_by_operator = matches!(to, WorkflowState::Cancelled | WorkflowState::ResolvedManually);
    if to.is_final() && before.parent.is_some() || is_by_operator && before.counts.nested > 0 {
        assert!(!moved, "{when}: this is for the store alone");
        return;
    }
    let activity = activity_of(0).await;
    let note = (note != json!({})).then(|| note.to_string().replace("\":\"", "\": \""));
    let by = By { actor: Some(owner.to_string()), note };
    let steering = Steering::Move { from, to, owner: owner.to_string(), hold: HOLD };
    let done = desk.store.steer(a, steering, by).await;
    assert_eq!(done.is_ok(), moved, "{when}: {done:?}");
    let done = since(&activity, &activity_of(0).await);
    assert_eq!((done.completed, done.failed), (done_in_sql.completed, done_in_sql.failed), "{when}");
    twins.compare(desk, &when).await;
}

fn since(before: &Activity, after: &Activity) -> Activity {
    let (before, after) = (<[u64; 7]>::from(*before), <[u64; 7]>::from(*after));
    let mut more = [0; 7];
    for (more, (before, after)) in more.iter_mut().zip(before.iter().zip(after)) {
        *more = after - before;
    }
    Activity::from(more)
}

#[test]
fn the_arrows_are_those_of_the_core() {
    runtime().block_on(async {
        let desk = Desk::new("arrows").await;
        let is_arrow = async |from: &str, to: &str| -> bool {
            let sql = "SELECT arrows.workflow_may_become($1, $2)";
            desk.client.query_one(sql, &[&from, &to]).await.unwrap().get(0)
        };
        for from in WorkflowState::ALL {
            for to in WorkflowState::ALL {
                assert_eq!(is_arrow(from.word(), to.word()).await, from.may_become(to), "{from} to {to}");
            }
            assert!(!is_arrow(from.word(), "done").await && !is_arrow("done", from.word()).await);
        }
    });
}

/// The words of the document, and nothing that is not there.
#[test]
fn what_cannot_be_is_false() {
    runtime().block_on(async {
        let desk = Desk::new("refused").await;
        let id = desk.start("default", &json!({ "a": {} })).await;
        let before = desk.rows().await;
        let none = json!({});
        assert!(!desk.move_in_sql(fresh_id(), "steps_in_process", "cancelled", OWNERS[0], &none).await);
        assert!(!desk.move_in_sql(id, "done", "cancelled", OWNERS[0], &none).await);
        assert!(!desk.move_in_sql(id, "steps_in_process", "done", OWNERS[0], &none).await);
        assert!(!desk.move_in_sql(id, "waiting_for_retry", "cancelled", OWNERS[0], &none).await);
        assert!(!desk.move_in_sql(id, "steps_in_process", "complete", OWNERS[0], &none).await);
        let nulls = "SELECT transition_task_state_atomic($1, NULL, 'cancelled', NULL),
            transition_task_state_atomic($1, 'steps_in_process', NULL, NULL), finalize_task_completion(NULL),
            transition_task_state_atomic(NULL, NULL, NULL, NULL), set_step_backoff_atomic(NULL, NULL)";
        let row = desk.client.query_one(nulls, &[&wide(id)]).await.unwrap();
        assert!((0..5).all(|column| !row.get::<_, bool>(column)));
        let to = "evaluating_results";
        assert!(
            !transition(&desk.client, id, "steps_in_process", to, None, &none).await,
            "nobody owns nothing"
        );
        assert_eq!(desk.rows().await, before);
        assert!(desk.move_in_sql(id, "steps_in_process", to, OWNERS[0], &none).await);
        assert!(!transition(&desk.client, id, to, "cancelled", None, &none).await, "somebody owns it");
        assert!(!desk.move_in_sql(id, to, "cancelled", OWNERS[1], &none).await);
        let back = "UPDATE refused.workflows SET owned_until = clock_timestamp()";
        desk.client.batch_execute(back).await.unwrap();
        assert!(transition(&desk.client, id, to, "cancelled", None, &none).await, "but not any more");
        let history = desk.store.workflow(id).await.unwrap().unwrap().history;
        assert_eq!(history.last().unwrap().actor, None);
        desk.check().await;
    });
}

/// Of two who move the same workflow, one does.
#[test]
fn of_two_transitions_one_wins() {
    runtime().block_on(async {
        let desk = Desk::new("two").await;
        let other = connect(desk.schema).await;
        let none = json!({});
        for (n, to) in
            ["evaluating_results", "cancelled", "resolved_manually"].into_iter().cycle().take(36).enumerate()
        {
            let id = desk.start("default", &json!({ "a": {}, "b": { "needs": ["a"] } })).await;
            let (one, two) = tokio::join!(
                transition(&desk.client, id, "steps_in_process", to, Some(OWNERS[0]), &none),
                transition(&other, id, "steps_in_process", to, Some(OWNERS[1]), &none),
            );
            assert!(one ^ two, "round {n}: {one} and {two}");
            let record = desk.store.workflow(id).await.unwrap().unwrap();
            let winner = OWNERS[usize::from(two)].to_string();
            assert_eq!(record.history.last().unwrap().actor, Some(winner), "round {n}");
        }
        desk.check().await;
    });
}

/// The last step ends while its workflow is cancelled: one of them comes first, and the other knows.
#[test]
fn a_cancel_meets_the_end_of_the_last_step() {
    runtime().block_on(async {
        let desk = Desk::new("meets").await;
        let none = json!({});
        let mut cancelled = 0;
        for n in 0..60 {
            let id = desk.start("default", &json!({ "a": {} })).await;
            let held = desk.claim("default", 1).await.remove(0);
            let finishing = async {
                for _ in 0..n % 4 {
                    tokio::task::yield_now().await;
                }
                desk.apply(finish(&held, completed("1"))).await
            };
            let cancelling = desk.move_in_sql(id, "steps_in_process", "cancelled", OWNERS[0], &none);
            let (finished, moved) = tokio::join!(finishing, cancelling);
            let state = desk.workflow(id).await.state;
            match finished {
                Ok(State::Completed) => assert_eq!((moved, state), (false, WorkflowState::Complete)),
                told => {
                    assert_eq!(told, Err("task_settled"), "round {n}");
                    assert_eq!((moved, state), (true, WorkflowState::Cancelled));
                    cancelled += 1;
                }
            }
        }
        println!("{cancelled} of 60 were cancelled");
        desk.check().await;
    });
}

/// What is held is taken away and its holder told, what waits in the lane goes on, and who waits for the end
/// hears of it.
#[test]
fn a_cancel_in_sql_is_heard() {
    runtime().block_on(async {
        let desk = Desk::new("heard").await;
        let lane = json!({ "key": "lane", "limit": 1 });
        let id =
            desk.start("default", &json!({ "a": { "lane": lane }, "b": {}, "c": { "needs": ["b"] } })).await;
        let next = desk.start("default", &json!({ "a": { "lane": lane } })).await;
        let held = desk.claim("default", 9).await;
        assert_eq!(held.len(), 2, "the lane lets one through");
        desk.apply(Command::Start { token: token(&held[0]), at: None }).await.unwrap();
        let mut watch = desk.store.watch();
        let before = *watch.borrow_and_update();
        assert!(
            desk.move_in_sql(id, "steps_in_process", "cancelled", OWNERS[0], &json!({ "why": "late" })).await
        );
        let heard = |now: &Rings| {
            now.revoked > before.revoked && now.settled > before.settled && now.claimable > before.claimable
        };
        tokio::time::timeout(PATIENCE, watch.wait_for(heard)).await.expect("the bells ring").unwrap();
        let leases = held.iter().map(|one| (one.task.id, one.task.status.lease)).collect();
        let mut told = desk.store.heartbeat(desk.worker.clone(), leases).await.unwrap().cancelled;
        told.sort_unstable();
        assert_eq!(told, [id.step(0), id.step(1)]);
        for one in &held {
            assert_eq!(desk.apply(finish(one, completed("1"))).await, Err("task_settled"));
        }
        let claimed = desk.claim("default", 9).await;
        assert_eq!(claimed.iter().map(|one| one.task.id).collect::<Vec<_>>(), [next.step(0)]);
        desk.apply(finish(&claimed[0], completed("1"))).await.unwrap();
        let record = desk.store.task(id.step(2)).await.unwrap().unwrap();
        let last = record.history.last().unwrap();
        assert_eq!((last.to, last.note.as_deref()), (State::Cancelled, Some(r#"{"why": "late"}"#)));
        desk.check().await;
    });
}

/// Whoever dies before the commit has done nothing, and leaves no lock.
#[test]
fn a_transition_that_is_not_committed_never_was() {
    runtime().block_on(async {
        let desk = Desk::new("undone").await;
        let id = desk.start("default", &json!({ "a": {}, "b": {} })).await;
        let held = desk.claim("default", 1).await.remove(0);
        let before = desk.rows().await;
        let other = connect(desk.schema).await;
        let pid: i32 = other.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
        other.batch_execute("BEGIN").await.unwrap();
        assert!(transition(&other, id, "steps_in_process", "cancelled", Some(OWNERS[0]), &json!({})).await);
        desk.client.query_one("SELECT pg_terminate_backend($1, 30000)", &[&pid]).await.unwrap();
        assert_eq!(desk.rows().await, before);
        assert_eq!(desk.apply(finish(&held, completed("1"))).await, Ok(State::Completed));
        desk.check().await;
    });
}

/// A workflow that is a step is ended by those who run the other, and so is one that waits for workflows
/// within it: the slot that such a step holds is freed when its workflow has ended, and not by SQL.
#[test]
fn nested_workflows_are_left_to_the_store() {
    runtime().block_on(async {
        let desk = Desk::new("nested").await;
        let step = json!({ "a": { "lane": { "key": "x", "limit": 1 } } });
        let id = desk.start("default", &step).await;
        let next = desk.start("default", &step).await;
        let held = desk.claim("default", 9).await.remove(0);
        let source =
            Source::AdHoc(Box::new(definition_of(json!({ "name": "within", "steps": { "x": {} } }))));
        let mut new = NewWorkflow::new(fresh_id(), source, Json::default());
        new.parent = Some(token(&held));
        let child = desk.store.start(new).await.unwrap().id;
        let (before, none) = (desk.rows().await, json!({}));
        for to in ["cancelled", "resolved_manually"] {
            assert!(!desk.move_in_sql(child, "steps_in_process", to, OWNERS[0], &none).await);
            assert!(!desk.move_in_sql(id, "waiting_for_dependencies", to, OWNERS[0], &none).await);
        }
        assert!(!finalize(&desk.client, child).await && !finalize(&desk.client, id).await);
        assert_eq!(desk.rows().await, before);
        assert!(desk.move_in_sql(child, "steps_in_process", "evaluating_results", OWNERS[0], &none).await);
        let held = desk.claim("default", 9).await;
        assert_eq!(held.iter().map(|one| one.task.id).collect::<Vec<_>>(), [child.step(0)]);
        desk.apply(finish(&held[0], completed("1"))).await.unwrap();
        assert_eq!(desk.workflow(id).await.state, WorkflowState::Complete);
        let held = desk.claim("default", 9).await.remove(0);
        assert_eq!(held.task.id, next.step(0));
        assert!(desk.move_in_sql(next, "steps_in_process", "cancelled", OWNERS[0], &none).await);
        assert!(finalize(&desk.client, child).await && finalize(&desk.client, id).await);
        desk.check().await;
    });
}

#[test]
fn finalizing_says_whether_a_workflow_is_complete() {
    runtime().block_on(async {
        let desk = Desk::new("finalized").await;
        let id = desk.start("default", &json!({ "a": {}, "b": { "needs": ["a"] } })).await;
        let cancelled = desk.start("default", &json!({ "a": {} })).await;
        desk.store.steer(cancelled, Steering::Cancel, By::default()).await.unwrap();
        let before = desk.rows().await;
        assert!(!finalize(&desk.client, id).await && !finalize(&desk.client, cancelled).await);
        assert!(!finalize(&desk.client, fresh_id()).await);
        assert_eq!(desk.rows().await, before);
        for _ in 0..2 {
            let held = desk.claim("default", 1).await.remove(0);
            assert!(!finalize(&desk.client, id).await);
            desk.apply(finish(&held, completed("1"))).await.unwrap();
        }
        let before = desk.rows().await;
        assert!(finalize(&desk.client, id).await && finalize(&desk.client, id).await);
        assert_eq!(desk.rows().await, before, "it was complete");
        desk.check().await;
    });
}

/// Tables that were written to by hand: all steps are over, the workflow is not. Whoever asks first completes
/// it, once.
#[test]
fn finalizing_at_once_completes_once() {
    runtime().block_on(async {
        let desk = Desk::new("at_once").await;
        let other = connect(desk.schema).await;
        let open = WorkflowState::ALL.into_iter().filter(|state| !state.is_final());
        for (at, state) in open.enumerate() {
            let id = desk.start("default", &json!({})).await;
            let (word, part) = (state.word(), 9000 + at);
            desk.client
                .batch_execute(&format!(
                    "UPDATE at_once.workflows SET state = '{word}', finished_at = NULL WHERE id = '{id}';
                    INSERT INTO at_once.workflow_counts VALUES ('default', 'flow', '{word}', 1, 1), ('default', 'flow', 'complete', {part}, -1);
                    ALTER TABLE at_once.workflow_history DISABLE TRIGGER USER;
                    UPDATE at_once.workflow_history h SET state = '{word}' FROM at_once.workflows w
                    WHERE w.id = '{id}' AND h.workflow = w.seq AND h.n = w.entries"
                ))
                .await
                .unwrap();
            let before = desk.store.workflow(id).await.unwrap().unwrap();
            let mut watch = desk.store.watch();
            let settled = watch.borrow_and_update().settled;
            let done = tokio::join!(finalize(&desk.client, id), finalize(&other, id));
            assert_eq!(done, (true, true), "{state}");
            let heard = watch.wait_for(|now| now.settled > settled);
            tokio::time::timeout(PATIENCE, heard).await.expect("the bell rings").unwrap();
            let after = desk.store.workflow(id).await.unwrap().unwrap();
            assert_eq!(after.workflow.state, WorkflowState::Complete);
            let way: Vec<_> = after.history[before.history.len()..].iter().map(|entry| entry.to).collect();
            assert_eq!(way, state.way_to(WorkflowState::Complete), "{state}");
        }
        let counts = desk.store.workflow_counts().await.unwrap();
        assert_eq!(counts.len(), 1, "{counts:?}");
        assert_eq!((counts[0].state, counts[0].workflows), (WorkflowState::Complete, 8));
        assert_eq!(desk.store.activity(Timestamp::MIN, None).await.unwrap().completed, 16, "once more");
    });
}

/// A backoff that is set in SQL: the step is due then, timers are told, and only what waits for a retry is
/// touched.
#[test]
fn a_backoff_in_sql_is_when_the_step_is_due() {
    runtime().block_on(async {
        let desk = Desk::new("backoff").await;
        let slow = json!({ "retry": { "initial": "1h", "max": "1h" } });
        let id =
            desk.start("default", &json!({ "a": slow, "b": slow, "c": {}, "d": { "needs": ["c"] } })).await;
        let held = desk.claim("default", 3).await;
        desk.apply(finish(&held[0], failed("broken"))).await.unwrap();
        desk.apply(finish(&held[1], Outcome::Snoozed { delay: Duration::from_secs(3600) })).await.unwrap();
        let before = desk.rows().await;
        for step in [1, 2, 3, 9] {
            assert!(!set_backoff(&desk.client, id.step(step), Some(5)).await, "step {step}");
        }
        assert!(!set_backoff(&desk.client, TaskId::new(wide(id)), Some(5)).await);
        assert!(!set_backoff(&desk.client, id.step(0), Some(-1)).await);
        assert!(!set_backoff(&desk.client, id.step(0), None).await);
        assert_eq!(desk.rows().await, before);
        let mut watch = desk.store.watch();
        for (seconds, waits) in [(90, 90), (i32::MAX, 30 * 24 * 3600), (0, 0)] {
            let timed = watch.borrow_and_update().timed;
            let earliest = desk.store.now().await.unwrap();
            assert!(set_backoff(&desk.client, id.step(0), Some(seconds)).await);
            let latest = desk.store.now().await.unwrap();
            let due_at = desk.store.task(id.step(0)).await.unwrap().unwrap().task.status.due_at.unwrap();
            let wait = Duration::from_secs(waits);
            assert!(
                earliest.plus(wait) <= due_at && due_at <= latest.plus(wait),
                "{due_at} after {seconds} s"
            );
            let heard = watch.wait_for(|now| now.timed > timed);
            tokio::time::timeout(PATIENCE, heard).await.expect("timers are told").unwrap();
        }
        let due = desk.store.due(10).await.unwrap().commands;
        assert_eq!(due, [Command::Promote { task: id.step(0) }]);
        assert_eq!(desk.apply(due[0].clone()).await, Ok(State::Pending));
        assert!(!set_backoff(&desk.client, id.step(0), Some(5)).await, "it waits no more");
        assert_eq!(desk.claim("default", 9).await[0].task.id, id.step(0));
        desk.check().await;
    });
}

/// Two programs work on workflows that share a lane, while two others cancel and resolve them in SQL. Whoever
/// comes first, everything comes to an end, nobody stands in another's way for good, and nothing is to be
/// repaired afterwards.
#[test]
fn workers_and_sql_at_once() {
    let seed = seed();
    println!("WINDLASS_SEED={seed}");
    let mut chance = Chance(seed);
    runtime().block_on(async {
        let desk = Desk::new("at_work").await;
        let second = Desk::new("at_work").await;
        let lane = json!({ "key": "lane", "limit": 2 });
        let mut ids = Vec::new();
        for _ in 0..60 {
            let steps = json!({
                "a": {}, "b": { "lane": lane }, "c": { "lane": lane }, "d": { "needs": ["a", "b"], "lane": lane },
                "e": { "needs": ["c", "d"], "join": "all_done" }, "f": { "needs": ["b"] },
            });
            ids.push(desk.start("default", &steps).await);
        }
        let ids = &ids;
        let is_over = async |desk: &Desk| {
            let counts = desk.store.workflow_counts().await.unwrap();
            counts.iter().all(|count| count.state.is_final())
        };
        let works = async |desk: &Desk, mut chance: Chance| {
            let mut watch = desk.store.watch();
            while !is_over(desk).await {
                watch.borrow_and_update();
                let held = desk.claim("default", 1 + chance.below(4)).await;
                for one in &held {
                    let outcome =
                        if chance.of(10) { failed_for_good("broken") } else { completed(r#""done""#) };
                    let told = desk.apply(finish(one, outcome)).await;
                    assert!(told.is_ok() || told == Err("task_settled"), "{told:?}");
                }
                if held.is_empty() && !is_over(desk).await {
                    // What is held by the other, or blocked by failures, is ended by somebody else.
                    tokio::time::timeout(PATIENCE, watch.changed()).await.expect("a bell").unwrap();
                }
            }
        };
        let ends = async |client: Client, mut chance: Chance| {
            let mut ended = 0;
            while !is_over(&desk).await {
                let id = chance.pick(ids);
                let from = desk.workflow(id).await.state;
                let to = if chance.of(50) { "cancelled" } else { "resolved_manually" };
                if from == WorkflowState::BlockedByFailures || chance.of(30) {
                    let by = chance.pick(&OWNERS);
                    let moved = transition(&client, id, from.word(), to, Some(by), &json!({})).await;
                    ended += u32::from(moved);
                }
            }
            ended
        };
        let mut seeds = || Chance(u64::try_from(chance.below(usize::MAX)).unwrap());
        let (one, two, three, four) = (seeds(), seeds(), seeds(), seeds());
        let (by_one, by_other) = (connect(desk.schema).await, connect(desk.schema).await);
        let all =
            async { tokio::join!(works(&desk, one), works(&second, two), ends(by_one, three), ends(by_other, four)) };
        let ((), (), by_one, by_other) = tokio::time::timeout(4 * PATIENCE, all).await.expect("an end");
        println!("{by_one} and {by_other} of 60 were ended in SQL");
        assert!(by_one + by_other > 0);
        desk.check().await;
    });
}
