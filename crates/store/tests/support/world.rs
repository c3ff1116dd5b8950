//! A store that can be killed at every write: what the crash sweep is made with.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use windlass_core::{
    By, Command, Entity, Firing, Lane, Name, NewSchedule, NewTask, NewWorker, Retention, TaskId, Term,
    WorkerId,
};
use windlass_store::conformance::{
    START, claim_of, completed, details, entity, failed, finish, firing, hourly, invariants, report,
};
use windlass_store::sqlite::{Durability, Options};
use windlass_store::{Catalog, Claimed, Error, ManualClock, SqliteStore, Store, Turn, Writes};

use crate::support::{self, Bar, Rows, file, poll_once, rows, task};

/// Everything that writes, as data: the same request can be made of the store and of each copy.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Submit(Vec<NewTask>),
    Turn(Turn),
    Register(NewWorker),
    Heartbeat(WorkerId),
    Deregister(WorkerId),
    Campaign(WorkerId),
    Resign(WorkerId, Term),
    Pause(bool),
    Know(Entity, bool),
    Schedule(Box<NewSchedule>),
    Unschedule(Name),
    Fire(Firing),
    Prune(Retention),
}

impl Op {
    pub(crate) fn apply(command: Command) -> Self {
        Self::Turn(Turn { commands: vec![command], ..Turn::default() })
    }

    pub(crate) fn schedule(schedule: NewSchedule) -> Self {
        Self::Schedule(Box::new(schedule))
    }

    pub(crate) fn claim(worker: &WorkerId, limit: usize) -> Self {
        Self::Turn(Turn { claim: Some(claim_of(worker, limit)), ..Turn::default() })
    }

    /// Makes the request. A refusal of a command counts as a failure, so that no operation of a test is idle
    /// by mistake.
    pub(crate) async fn run(self, store: &dyn Store) -> Result<(), Error> {
        let name = Name::default();
        match self {
            Self::Submit(tasks) => store.submit(tasks).await.map(drop),
            Self::Turn(turn) => {
                for receipt in store.turn(turn).await?.receipts {
                    receipt?;
                }
                Ok(())
            }
            Self::Register(worker) => store.register(worker).await.map(drop),
            Self::Heartbeat(worker) => store.heartbeat(worker.clone(), Vec::new()).await.map(drop),
            Self::Deregister(worker) => store.deregister(worker.clone()).await,
            Self::Campaign(worker) => store.campaign(worker.clone(), Duration::from_secs(30)).await.map(drop),
            Self::Resign(worker, term) => store.resign(worker.clone(), term).await,
            Self::Pause(paused) => store.pause(name.clone(), name.clone(), paused).await,
            Self::Know(entity, known) => {
                store.set_entity(name.clone(), entity.clone(), known).await.map(drop)
            }
            Self::Schedule(schedule) => store.set_schedule(*schedule).await.map(drop),
            Self::Unschedule(schedule) => {
                store.remove_schedule(name.clone(), schedule.clone()).await.map(drop)
            }
            Self::Fire(firing) => store.fire(firing, None).await.map(drop),
            Self::Prune(retention) => store.prune(retention.clone(), 100).await.map(drop),
        }
    }
}

/// What a process killed at one point leaves behind.
pub(crate) struct Corpse {
    pub(crate) statement: &'static str,
    pub(crate) before: bool,
    pub(crate) path: PathBuf,
}

impl Corpse {
    pub(crate) fn is_committed(&self) -> bool {
        self.statement == "commit" && !self.before
    }

    pub(crate) fn died(&self) -> String {
        format!("died {} {}", if self.before { "before" } else { "after" }, self.statement)
    }
}

/// Copies the file at every point while it is on.
#[derive(Default)]
pub(crate) struct Camera {
    on: bool,
    /// Of many points only every n-th before the commit is kept, if set.
    every: Option<usize>,
    seen: usize,
    corpses: Vec<Corpse>,
}

impl Camera {
    pub(crate) fn look(&mut self, source: &Path, statement: &'static str, before: bool) {
        if !self.on {
            return;
        }
        self.seen += 1;
        if self.every.is_some_and(|every| statement != "commit" && !self.seen.is_multiple_of(every)) {
            return;
        }
        let directory = source.with_file_name(format!("corpse-{}", self.seen));
        std::fs::create_dir(&directory).unwrap();
        let path = file(&directory);
        std::fs::copy(source, &path).unwrap();
        std::fs::copy(log(source), log(&path)).unwrap();
        self.corpses.push(Corpse { statement, before, path });
    }
}

pub(crate) fn log(path: &Path) -> PathBuf {
    path.with_file_name("windlass.db-wal")
}

/// Makes the writer panic at a point of the next group.
#[derive(Clone, Default)]
pub(crate) struct Fuse(Arc<Mutex<Option<usize>>>);

impl Fuse {
    /// The points of what belongs to no single caller do not count.
    fn burn(&self, statement: &str) {
        if matches!(statement, "add_count" | "sub_count" | "set_sequence" | "commit") {
            return;
        }
        let mut left = self.0.lock().unwrap();
        match &mut *left {
            None => {}
            Some(0) => {
                *left = None;
                drop(left);
                panic!("{ON_PURPOSE}");
            }
            Some(points) => *points -= 1,
        }
    }
}

/// What a planned panic says.
pub(crate) const ON_PURPOSE: &str = "a panic on purpose";

pub(crate) struct World {
    pub(crate) directory: TempDir,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) camera: Arc<Mutex<Camera>>,
    pub(crate) worker: WorkerId,
    /// How many points were visited.
    pub(crate) points: usize,
    bar: Bar,
    fuse: Fuse,
    next: u64,
}

impl World {
    pub(crate) async fn new() -> Self {
        let directory = support::place();
        let (clock, camera) = (Arc::new(ManualClock::new(START)), Arc::<Mutex<Camera>>::default());
        let (bar, fuse) = (Bar::default(), Fuse::default());
        let probe = {
            let (camera, bar, fuse, path) = (camera.clone(), bar.clone(), fuse.clone(), file(&directory));
            move |statement: &'static str, before: bool| {
                camera.lock().unwrap().look(&path, statement, before);
                bar.wait(statement, before);
                fuse.burn(statement);
            }
        };
        let options = Options::new(file(&directory)).durability(Durability::Normal).clock(clock.clone());
        let store = Arc::new(options.probe(probe).open().unwrap());
        let worker = support::worker(&*store, "worker").await;
        Self { directory, clock, store, camera, worker, points: 0, bar, fuse, next: 1 }
    }

    pub(crate) fn task(&mut self) -> NewTask {
        self.next += 1;
        task(self.next)
    }

    pub(crate) fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    pub(crate) fn rows(&self) -> Rows {
        rows(&file(&self.directory))
    }

    pub(crate) fn film(&self, every: Option<usize>) {
        *self.camera.lock().unwrap() = Camera { on: true, every, ..Camera::default() };
    }

    pub(crate) fn corpses(&self) -> Vec<Corpse> {
        std::mem::take(&mut *self.camera.lock().unwrap()).corpses
    }

    pub(crate) async fn submit(&self, task: NewTask) -> TaskId {
        self.store.submit(vec![task]).await.unwrap()[0].id
    }

    /// Submits a task and has it claimed; nothing else may be claimable.
    pub(crate) async fn claimed(&mut self, change: impl FnOnce(&mut NewTask)) -> Claimed {
        let mut task = self.task();
        change(&mut task);
        task.priority = 1_000;
        let id = self.submit(task).await;
        self.take(id).await
    }

    pub(crate) async fn take(&self, id: TaskId) -> Claimed {
        let mut claimed = self.store.claim(claim_of(&self.worker, 1)).await.unwrap();
        assert_eq!(claimed[0].task.id, id, "the right one was claimed");
        claimed.remove(0)
    }

    /// The slot that the first schedule waits for.
    pub(crate) async fn slot(&mut self) -> Firing {
        let schedules = self.store.schedules().await.unwrap();
        firing(&schedules[0], self.task().id)
    }

    pub(crate) async fn do_it(&self, op: Op) {
        op.run(&*self.store).await.unwrap();
    }

    /// Does `op`, dying at every point of it.
    pub(crate) async fn sweep(&mut self, what: &str, op: Op) {
        self.sweep_some(what, op, None).await;
    }

    pub(crate) async fn sweep_some(&mut self, what: &str, op: Op, every: Option<usize>) {
        let before = self.rows();
        self.film(every);
        self.do_it(op.clone()).await;
        let corpses = self.corpses();
        let after = self.rows();
        assert_ne!(before, after, "{what} writes something");
        assert!(corpses.len() >= 4, "{what} has a statement and a commit");
        let committed = corpses.iter().filter(|corpse| corpse.is_committed()).count();
        assert_eq!(committed, 1, "{what} is one transaction");
        for corpse in corpses {
            let what = format!("{what}, {}", corpse.died());
            let found = if corpse.is_committed() { &after } else { &before };
            let repeat = (!corpse.is_committed()).then(|| (op.clone(), &after));
            self.autopsy(&what, &corpse, found, repeat).await;
        }
    }

    /// Opens what was left behind: exactly `found`, all invariants, and the request can be repeated if it was
    /// not carried out.
    pub(crate) async fn autopsy(
        &mut self,
        what: &str,
        corpse: &Corpse,
        found: &Rows,
        repeat: Option<(Op, &Rows)>,
    ) {
        let options = Options::new(&corpse.path).durability(Durability::Normal);
        let store = options.clock(self.clock.clone()).open().unwrap();
        assert!(rows(&corpse.path) == *found, "{what}: all or nothing is there");
        if let Some((op, after)) = repeat {
            op.run(&store).await.unwrap_or_else(|error| panic!("{what}, repeated: {error}"));
            assert!(rows(&corpse.path) == *after, "{what}: repeating it gives what it would have given");
        }
        invariants::check(&store, &*self.clock).await;
        store.close().await.unwrap();
        std::fs::remove_dir_all(corpse.path.parent().unwrap()).unwrap();
        self.points += 1;
    }
}

pub(crate) fn in_lane(lane: Lane) -> impl FnOnce(&mut NewTask) {
    move |task| task.lane = Some(lane)
}

type Call = Pin<Box<dyn Future<Output = Result<(), Error>>>>;

impl World {
    /// Has `ops` carried out by concurrent callers in one transaction, after one caller's before.
    /// If `panic_at` is set, the writer panics at that point of their work.
    pub(crate) async fn group(&mut self, ops: Vec<Op>, panic_at: Option<usize>) -> Vec<Result<(), Error>> {
        let (gate, first) = (self.bar.close(), Op::Submit(vec![self.task()]));
        let call = |op: Op| -> Call {
            let store = self.store.clone();
            Box::pin(async move { op.run(&*store).await })
        };
        let mut first = call(first);
        assert!(poll_once(&mut first).is_pending(), "the first caller waits for its commit");
        gate.reached();
        *self.fuse.0.lock().unwrap() = panic_at;
        let mut calls: Vec<Call> = ops.into_iter().map(call).collect();
        assert!(calls.iter_mut().all(|call| poll_once(call).is_pending()), "all callers have queued up");
        gate.open();
        first.await.unwrap();
        let mut answers = Vec::new();
        for call in calls {
            answers.push(call.await);
        }
        answers
    }

    /// Callers of all sorts, for one group, by themselves all possible.
    pub(crate) async fn crowd(&mut self) -> Vec<Op> {
        let worker = self.worker.clone();
        let (done, gone) = (self.claimed(|_| {}).await, self.claimed(|_| {}).await);
        let tells = self.claimed(|_| {}).await;
        let lane = Lane::of(&entity("planner:1"));
        let waits = NewTask { lane: Some(lane.clone()), ..self.task() };
        let held = self.claimed(in_lane(lane)).await;
        self.submit(waits).await;
        let scheduled = self.store.set_schedule(hourly("s", START)).await.unwrap();
        vec![
            Op::Submit(vec![self.task()]),
            Op::apply(finish(&done, completed("1"))),
            Op::Submit((0..3).map(|n| NewTask { key: Some(format!("k{n}")), ..self.task() }).collect()),
            Op::apply(finish(&held, failed("2"))),
            Op::Submit(vec![NewTask { queue: Name::queue("other").unwrap(), ..self.task() }]),
            Op::apply(Command::Cancel { task: gone.task.id, by: By::default() }),
            Op::Campaign(worker.clone()),
            Op::Know(entity("planner:1"), true),
            Op::Register(support::new_worker("another")),
            Op::apply(report(&tells, details("[1]"))),
            Op::schedule(hourly("t", START)),
            Op::Fire(firing(&scheduled, self.task().id)),
            Op::claim(&worker, 2),
        ]
    }
}
