//! A good run with a little of everything, to be made bad on purpose.

use std::num::NonZeroU32;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::json;
use windlass_core::{
    By, Command, Entry, Lane, Lease, NewTask, NewWorkflow, Outcome, Place, Retention, Start, State, Steering,
    TaskId,
};

use super::stage::{Stage, finish, task, token};
use crate::conformance::checker::{Asked, End, Event, Op, Violation, What, check, check_workflows};
use crate::conformance::{
    ad_hoc, completed, definition, entity, expanded, failed, failed_for_good, id, invariants, workflow_id,
};
use crate::{Record, WorkflowRecord, Writes};

/// Submitted, claimed, completed.
pub(super) const PLAIN: u64 = 1;
/// Failed, then completed.
pub(super) const RETRIED: u64 = 2;
/// Its first worker was killed before it could finish it, and its second completed it.
pub(super) const EXPIRED: u64 = 3;
/// Completed by a worker that was killed before it heard of that.
pub(super) const UNHEARD: u64 = 4;
/// Three tasks of one entity: the first fails and comes back when the second is done.
pub(super) const ENTITY: [u64; 3] = [5, 6, 7];
/// Three tasks of a lane of two: the third starts when one of the others has ended.
pub(super) const LANE: [u64; 3] = [8, 9, 10];
/// Submitted twice with one key, the second time under another id.
pub(super) const KEYED: u64 = 11;
pub(super) const KEYED_AGAIN: u64 = 12;
/// Cancelled, reopened, completed.
pub(super) const REOPENED: u64 = 13;
/// Cancelled by a client that was killed before it heard of that.
pub(super) const CANCELLED: u64 = 14;
/// Out of attempts, reopened, completed.
pub(super) const DEAD: u64 = 15;
/// Completed and deleted.
pub(super) const DELETED: u64 = 16;
/// Its submit was not answered, and not done.
pub(super) const ABSENT: u64 = 17;
/// Its submit was not answered, but done.
pub(super) const PRESENT: u64 = 18;
/// Snoozed, then completed.
pub(super) const SNOOZED: u64 = 19;
/// Given back, then completed.
pub(super) const RELEASED: u64 = 20;
/// Refused, because it says that it may run for no time at all.
pub(super) const REFUSED: u64 = 21;
/// Two tasks of an entity in strict order: the second waits for the retry of the first.
pub(super) const STRICT: [u64; 2] = [22, 23];
/// Due in a moment; the next of its entity does not wait for it.
pub(super) const LATER: [u64; 2] = [24, 25];
/// Completed and pruned before all others were submitted.
pub(super) const PRUNED: [u64; 2] = [26, 27];

/// A workflow: `a`; after it `b`, which is skipped, and `c`, which has two items; after `c` the workflow `d`;
/// after `a` and `d` `e`; `f` needs `b` and is skipped; `g` comes after `b` and `e`, however they ended; `h`
/// has no items, and `i` comes after it.
pub(super) const OUTER: u64 = 40;
/// The workflow that `d` is.
pub(super) const INNER: u64 = 41;
/// A workflow that is cancelled before anything of it has run.
pub(super) const STOPPED: u64 = 42;

/// A step of [`OUTER`], by its letter.
pub(super) fn step(letter: char) -> TaskId {
    workflow_id(OUTER).step(u32::from(letter) - u32::from('a'))
}

/// An item of `c`.
pub(super) fn item(item: u32) -> TaskId {
    workflow_id(OUTER).task(Place { step: 2, item: Some(item) })
}

/// What is checked.
#[derive(Clone)]
pub(super) struct Run {
    pub(super) events: Vec<Event>,
    pub(super) records: Vec<Record>,
    pub(super) workflows: Vec<WorkflowRecord>,
}

/// The good run.
pub(super) fn good() -> &'static Run {
    static GOOD: OnceLock<Run> = OnceLock::new();
    let play = || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let stage = Stage::new(&["alpha", "beta", "gamma"]).await;
            prune(&stage).await;
            submit(&stage).await;
            alone(&stage).await;
            kills(&stage).await;
            lanes(&stage).await;
            operators(&stage).await;
            workflows(&stage).await;
            let (events, records) = stage.over().await;
            Run { events, records, workflows: invariants::dump_workflows(&stage.store).await }
        })
    };
    GOOD.get_or_init(play)
}

async fn prune(stage: &Stage) {
    stage.submit(PRUNED.map(|n| task(id(n))).to_vec()).await;
    for n in PRUNED {
        stage.work("alpha", id(n), completed("1")).await;
    }
    stage.tick();
    let retention = Retention::default().keep(State::Completed, Duration::ZERO).unwrap();
    assert_eq!(stage.journal("client").prune(&stage.store, &retention, 9).await, Ok(2));
}

async fn submit(stage: &Stage) {
    let in_lane = |n: u64, lane: &Lane| NewTask { lane: Some(lane.clone()), ..task(id(n)) };
    for n in [PLAIN, RETRIED, EXPIRED, UNHEARD, REOPENED, CANCELLED, DELETED, SNOOZED, RELEASED] {
        stage.submit(vec![task(id(n))]).await;
    }
    stage.submit(ENTITY.map(|n| in_lane(n, &Lane::of(&entity("planner:1")))).to_vec()).await;
    stage.submit(LANE.map(|n| in_lane(n, &Lane::new("api", 2).unwrap())).to_vec()).await;
    stage.submit(STRICT.map(|n| in_lane(n, &Lane::of(&entity("planner:2")).strict())).to_vec()).await;
    let [later, now] = LATER.map(|n| in_lane(n, &Lane::of(&entity("planner:3"))));
    let start = Start::After(Duration::from_millis(1));
    stage.submit(vec![NewTask { start, ..later }, now]).await;
    for n in [KEYED, KEYED_AGAIN] {
        stage.submit(vec![NewTask { key: Some("k".into()), ..task(id(n)) }]).await;
    }
    stage.submit(vec![NewTask { max_attempts: NonZeroU32::new(1), ..task(id(DEAD)) }]).await;
    stage.killed_submitting(task(id(ABSENT)), false).await;
    stage.killed_submitting(task(id(PRESENT)), true).await;
    let senseless = NewTask { timeout: Some(Duration::ZERO), ..task(id(REFUSED)) };
    stage.tick();
    stage.journal("client").submit(&stage.store, vec![senseless]).await.unwrap_err();
}

async fn alone(stage: &Stage) {
    for n in [PLAIN, KEYED, DELETED, PRESENT] {
        stage.work("alpha", id(n), completed("1")).await;
    }
    stage.apply("client", Command::Delete { task: id(DELETED) }).await.unwrap();
    stage.work("beta", id(RETRIED), failed("no")).await;
    stage.work("beta", id(SNOOZED), Outcome::Snoozed { delay: Duration::ZERO }).await;
    stage.chores().await;
    let claimed = stage.start("alpha", id(RETRIED)).await;
    assert!(stage.finish(&claimed, completed("1")).await.unwrap().changed);
    assert!(!stage.finish(&claimed, completed("1")).await.unwrap().changed, "it was finished before");
    stage.work("beta", id(SNOOZED), completed("1")).await;
    let claimed = stage.start("alpha", id(RELEASED)).await;
    stage.apply("alpha", Command::Release { token: token(&claimed), note: None }).await.unwrap();
    stage.work("beta", id(RELEASED), completed("1")).await;
}

async fn kills(stage: &Stage) {
    let (expired, unheard) =
        (stage.start("gamma", id(EXPIRED)).await, stage.start("gamma", id(UNHEARD)).await);
    stage.killed("gamma", finish(&expired, completed("1")), false).await;
    stage.killed("gamma", finish(&unheard, completed("1")), true).await;
    stage.store.deregister(super::stage::worker("gamma")).await.unwrap();
    stage.chores().await;
    stage.work("alpha", id(EXPIRED), completed("1")).await;
    assert_eq!(stage.finish(&expired, completed("1")).await, None, "a zombie is refused");
}

async fn lanes(stage: &Stage) {
    let [first, second, third] = ENTITY.map(id);
    stage.work("alpha", first, failed("no")).await;
    stage.chores().await;
    stage.work("beta", second, completed("1")).await;
    stage.work("beta", first, completed("1")).await;
    stage.work("alpha", third, completed("1")).await;
    let [first, second, third] = LANE.map(id);
    let (one, two) = (stage.start("alpha", first).await, stage.start("beta", second).await);
    stage.finish(&two, completed("1")).await.unwrap();
    let three = stage.start("beta", third).await;
    stage.finish(&one, completed("1")).await.unwrap();
    stage.finish(&three, completed("1")).await.unwrap();
    let [first, second] = STRICT.map(id);
    stage.work("alpha", first, failed("no")).await;
    stage.chores().await;
    stage.work("alpha", first, completed("1")).await;
    stage.work("alpha", second, completed("1")).await;
    let [later, now] = LATER.map(id);
    stage.work("alpha", now, completed("1")).await;
    stage.work("alpha", later, completed("1")).await;
}

async fn operators(stage: &Stage) {
    let cancel = |n| Command::Cancel { task: id(n), by: By::default() };
    let reopen = |n| Command::Retry { task: id(n), force: true, by: By::default() };
    stage.apply("client", cancel(REOPENED)).await.unwrap();
    stage.work("alpha", id(DEAD), failed("no")).await;
    for n in [REOPENED, DEAD] {
        stage.apply("client", reopen(n)).await.unwrap();
        stage.work("beta", id(n), completed("1")).await;
    }
    stage.killed("client", cancel(CANCELLED), true).await;
}

async fn workflows(stage: &Stage) {
    let steps = json!({
        "a": {}, "b": { "needs": ["a"] }, "c": { "needs": ["a"] }, "d": { "needs": ["c"], "workflow": "inner" },
        "e": { "needs": ["a", "d"] }, "f": { "needs": ["b"] }, "g": { "needs": ["b", "e"], "join": "all_done" },
        "h": { "needs": ["a"] }, "i": { "needs": ["h"] },
    });
    stage.begin("client", ad_hoc(OUTER, definition(steps))).await;
    stage.work("alpha", step('a'), completed("1")).await;
    stage.decide("beta", step('c'), expanded(&["0", "1"], None)).await;
    stage.decide("beta", step('b'), Outcome::Skipped { note: "not needed".into() }).await;
    stage.decide("beta", step('h'), expanded(&[], None)).await;
    stage.work("alpha", step('i'), completed("1")).await;
    stage.work("alpha", item(1), completed("1")).await;
    stage.work("beta", item(0), failed_for_good("no")).await;
    let again = Command::Retry { task: item(0), force: true, by: By::default() };
    stage.apply("client", again).await.unwrap();
    stage.work("beta", item(0), completed("1")).await;
    let d = stage.take("alpha", step('d')).await;
    let inner = ad_hoc(INNER, definition(json!({ "x": {}, "y": {} })));
    let inner = stage.begin("alpha", NewWorkflow { parent: Some(token(&d)), ..inner }).await;
    stage.work("alpha", inner.step(0), completed("1")).await;
    stage.work("beta", inner.step(1), completed("1")).await;
    stage.work("alpha", step('e'), completed("1")).await;
    stage.work("alpha", step('g'), completed("1")).await;
    let stopped = stage.begin("client", ad_hoc(STOPPED, definition(json!({ "a": {} })))).await;
    stage.store.steer(stopped, Steering::Cancel, By::default()).await.unwrap();
}

impl Run {
    pub(super) fn check(&self) -> Vec<Violation> {
        let mut found = check(&self.events, &self.records, true);
        found.extend(check_workflows(&self.events, &self.records, &self.workflows));
        found
    }

    /// Lets all that happens be as it is, but the first event that is like this happen before the first that
    /// is like that.
    pub(super) fn move_before(&mut self, this: impl Fn(&What) -> bool, that: impl Fn(&What) -> bool) {
        let moment = self.events.iter().find(|event| that(&event.what)).unwrap().at;
        let moved = self.events.iter_mut().find(|event| this(&event.what)).unwrap();
        assert!(moved.at > moment, "it was later");
        moved.at = moment.minus(Duration::from_micros(1));
    }

    pub(super) fn record(&mut self, n: u64) -> &mut Record {
        self.records.iter_mut().find(|record| record.task.id == id(n)).unwrap()
    }

    pub(super) fn remove(&mut self, n: u64) {
        self.records.retain(|record| record.task.id != id(n));
    }

    /// Changes a history and makes the row follow it.
    pub(super) fn rewrite(&mut self, n: u64, rewrite: impl FnOnce(&mut Vec<Entry>)) {
        let Record { task, history, .. } = self.record(n);
        rewrite(history);
        let mut before = None;
        for (seq, entry) in (1..).zip(&mut *history) {
            (entry.seq, entry.from) = (seq, before);
            before = Some(entry.to);
        }
        let last = history.last().unwrap();
        let claims = history.iter().filter(|entry| entry.to == State::Claimed).count();
        let row = &mut task.status;
        (row.state, row.entries, row.updated_at) = (last.to, last.seq, last.at);
        row.lease = Lease::try_from(claims).unwrap();
        row.attempt = windlass_core::history::attempts_used(history);
        row.finished_at = last.to.is_final().then_some(last.at);
    }

    /// Adds a line to the log.
    pub(super) fn log(&mut self, who: &str, what: What) {
        let at = self.events.last().unwrap().at.plus(Duration::from_millis(1));
        self.events.push(Event { who: who.into(), at, what });
    }

    /// Adds an operation to the log.
    pub(super) fn log_op(&mut self, who: &str, op: Op, end: End) {
        let number = 1000 + u64::try_from(self.events.len()).unwrap();
        self.log(who, What::Invoked { number, op });
        self.log(who, What::Ended { number, end });
    }

    /// Adds the start of a handler to the log.
    pub(super) fn log_handler(&mut self, task: TaskId, lease: Lease, attempt: u32) {
        self.log("alpha", What::HandlerStarted { task, lease, entity: None, attempt });
    }

    /// Writer and number of the first operation that is like this.
    pub(super) fn find(&self, like: impl Fn(&Op) -> bool) -> (String, u64) {
        let found = self.events.iter().find_map(|event| match &event.what {
            What::Invoked { number, op } if like(op) => Some((event.who.to_string(), *number)),
            _ => None,
        });
        found.unwrap()
    }

    pub(super) fn find_submit(&self, n: u64) -> (String, u64) {
        let names = |asked: &Asked| asked.id == id(n);
        self.find(|op| matches!(op, Op::Submit(asked) if asked.iter().any(names)))
    }

    pub(super) fn find_finish(&self, n: u64, of: Lease) -> (String, u64) {
        self.find(|op| matches!(op, Op::Finish { task, lease, .. } if *task == id(n) && *lease == of))
    }

    /// Gives an operation another end.
    pub(super) fn end(&mut self, (who, op): (String, u64), end: End) {
        let ends = |event: &Event| {
            *event.who == *who && matches!(event.what, What::Ended { number, .. } if number == op)
        };
        self.events.retain(|event| !ends(event));
        self.log(&who, What::Ended { number: op, end });
    }
}
