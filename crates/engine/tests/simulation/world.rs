//! What all processes of a run share: the store, its clock, and the book. Every effect on the store passes
//! here, in order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use windlass::{
    Claimed, Command, Due, Error, Finished, Firing, Leadership, Lease, MemoryStore, NewTask, Pulse, Rings,
    Store, Submitted, TaskId, Term, Turn, Turned, WorkerId,
};

use super::book::{Book, short};
use super::clock::Skewed;
use super::mirror::Mirror;
use super::mutant::Mutant;
use super::process::Process;
use super::random::Random;

type Result<T> = std::result::Result<T, Error>;

/// More calls than this in one moment, and nobody will ever get further: something goes round in circles.
const CALLS_AT_ONCE: u64 = 5_000;

/// Who listens to the store's signals. Each listener has a channel of its own: who waits on a shared one is
/// woken in an order that tokio draws by lot.
#[derive(Debug)]
struct Listener {
    process: Arc<Process>,
    bell: watch::Sender<Rings>,
}

/// The world of one run.
#[derive(Debug)]
pub(crate) struct World {
    /// What repeats the run.
    pub(crate) seed: u64,
    /// The store, without anything between.
    pub(crate) store: Arc<dyn Store>,
    /// Its clock.
    pub(crate) clock: Arc<Skewed>,
    /// What is broken on purpose.
    pub(crate) mutant: Mutant,
    rings: watch::Receiver<Rings>,
    listeners: Mutex<Vec<Listener>>,
    book: Mutex<Book>,
    mirror: Mutex<Mirror>,
    processes: Mutex<Vec<Arc<Process>>>,
    ids: Mutex<(u64, Random)>,
    /// The present moment and the calls in it.
    busy: Mutex<(u128, u64)>,
    /// How many things the mutant could have done wrong.
    pub(super) chances: AtomicU64,
    pub(super) echo: Mutex<Option<Claimed>>,
    /// When the clock last jumped.
    jumped_at: Mutex<Option<Instant>>,
    /// Whether it ever went back.
    pub(crate) went_back: AtomicU64,
    /// What programs that submitted were told by the client.
    pub(crate) told: Mutex<BTreeMap<TaskId, Result<Submitted>>>,
    /// Programs that wait for a task.
    pub(crate) waiters: Mutex<Vec<JoinHandle<Result<Finished>>>>,
    /// Whether the run is over.
    over: AtomicBool,
}

impl World {
    /// An empty world.
    pub(crate) fn new(seed: u64, mutant: Mutant, random: &mut Random) -> Arc<Self> {
        let clock = Arc::new(Skewed::new());
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(clock.clone()));
        Arc::new(Self {
            seed,
            rings: store.watch(),
            store,
            clock,
            mutant,
            listeners: Mutex::default(),
            book: Mutex::default(),
            mirror: Mutex::default(),
            processes: Mutex::default(),
            ids: Mutex::new((0, random.fork())),
            busy: Mutex::default(),
            chances: AtomicU64::new(0),
            echo: Mutex::default(),
            jumped_at: Mutex::default(),
            went_back: AtomicU64::new(0),
            told: Mutex::default(),
            waiters: Mutex::default(),
            over: AtomicBool::new(false),
        })
    }

    /// Whether the run is over, so that what is dropped now means nothing.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// The run is over.
    pub(crate) fn close(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    /// What is written down.
    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap()
    }

    /// What is checked at once.
    pub(crate) fn mirror(&self) -> MutexGuard<'_, Mirror> {
        self.mirror.lock().unwrap()
    }

    /// A line of the trace.
    pub(crate) fn trace(&self, who: &str, what: &str) {
        let millis = self.clock.millis();
        self.book().line(millis, who, what);
    }

    /// One more of something.
    pub(crate) fn count(&self, what: &'static str) {
        self.book().tally.count(what);
    }

    /// Something is wrong.
    pub(crate) fn wrong(&self, what: impl Into<String>) {
        let what = what.into();
        self.trace("WRONG", &what);
        self.book().wrong.push(what);
    }

    fn check(&self, wrong: Option<String>) {
        if let Some(wrong) = wrong {
            self.wrong(wrong);
        }
    }

    /// A new id for a task.
    pub(crate) fn new_id(&self) -> TaskId {
        let (last, random) = &mut *self.ids.lock().unwrap();
        *last += 1;
        let id = u128::from(*last) << 64 | u128::from(random.next());
        TaskId::from_bytes(id.to_be_bytes())
    }

    /// A process joins the world.
    pub(crate) fn join(&self, process: Process) -> Arc<Process> {
        let process = Arc::new(process);
        self.processes.lock().unwrap().push(process.clone());
        process
    }

    /// All processes, those that are gone too.
    pub(crate) fn processes(&self) -> Vec<Arc<Process>> {
        self.processes.lock().unwrap().clone()
    }

    /// Moves the store's clock.
    pub(crate) fn jump(&self, millis: i64) {
        self.clock.jump(millis);
        *self.jumped_at.lock().unwrap() = Some(Instant::now());
        if millis < 0 {
            self.went_back.fetch_add(1, Ordering::SeqCst);
        }
        self.trace("clock", &format!("jumps by {millis} ms"));
    }

    /// Counts what goes on in one moment. Answers with false if it is so much that it will never end.
    pub(crate) fn is_bearable(&self, who: &str, what: &str) -> bool {
        let now = self.clock.millis();
        let (moment, calls) = &mut *self.busy.lock().unwrap();
        *calls = if *moment == now { *calls + 1 } else { 1 };
        *moment = now;
        if *calls == CALLS_AT_ONCE {
            self.wrong(format!("{who} goes round in circles: {what}"));
        }
        *calls < CALLS_AT_ONCE
    }

    /// Somebody wants to hear of news.
    pub(crate) fn listen(&self, process: &Arc<Process>) -> watch::Receiver<Rings> {
        let (bell, heard) = watch::channel(*self.rings.borrow());
        self.listeners.lock().unwrap().push(Listener { process: process.clone(), bell });
        heard
    }

    /// Tells everybody who hears.
    fn ring(&self) {
        let rings = *self.rings.borrow();
        let mut listeners = self.listeners.lock().unwrap();
        listeners.retain(|listener| !listener.bell.is_closed());
        for Listener { process, bell } in &*listeners {
            if process.weather().is_deaf() {
                continue;
            }
            bell.send_if_modified(|known| std::mem::replace(known, rings) != rings);
        }
    }

    /// A submit reaches the store.
    pub(crate) async fn submit(&self, mut tasks: Vec<NewTask>) -> Result<Vec<Submitted>> {
        let asked = tasks.clone();
        if let Some(lie) = self.mutant.submit(self, &mut tasks) {
            return lie;
        }
        let submitted = self.store.submit(tasks).await?;
        self.mirror().submitted(&asked, &submitted);
        let found = submitted.iter().filter(|one| !one.created).count();
        self.book().tally.add("keys that existed", u64::try_from(found).unwrap());
        self.ring();
        Ok(submitted)
    }

    /// A turn reaches the store.
    pub(crate) async fn turn(&self, by: &Process, turn: Turn) -> Result<Turned> {
        let (asked, term) = (turn.commands.clone(), turn.term);
        let worker = turn.claim.as_ref().map(|claim| claim.worker.clone());
        let turned = self.mutant.turn(self, turn).await?;
        self.check(self.mirror().led(&by.name, term));
        for (command, receipt) in asked.iter().zip(&turned.receipts) {
            let Ok(receipt) = receipt else {
                if matches!(command, Command::Finish { .. }) {
                    self.count("finishes refused");
                }
                continue;
            };
            let holder = self.mirror().holder(receipt.task).cloned();
            let wrong = self.mirror().accepted(command, receipt);
            self.check(wrong);
            if receipt.changed {
                self.note(command, receipt.state.word());
            }
            if let (Command::Expire { task, lease }, Some(holder)) = (command, holder) {
                self.expired(&holder, *task, *lease);
            }
        }
        if let (Some(worker), Ok(claimed)) = (worker, &turned.claimed) {
            for claimed in claimed {
                self.count("claims");
                if self.mirror().is_timed(claimed.task.id) {
                    self.count("claims of what nobody promoted");
                }
                let wrong = self.mirror().claimed(&worker, &claimed.task);
                self.check(wrong);
            }
        }
        self.ring();
        Ok(turned)
    }

    /// Counts what was done.
    fn note(&self, command: &Command, state: &'static str) {
        let sort = match command {
            Command::Release { note: Some(note), .. } if note.contains("answer that gave it was lost") => {
                "lost claims released"
            }
            Command::Release { .. } => "releases",
            Command::Cancel { by, .. } if by.note.as_deref() == Some("replaced") => "runs replaced",
            Command::Cancel { .. } => "cancels",
            Command::Retry { .. } => "retries by hand",
            Command::Postpone { .. } => "postponements",
            Command::Resolve { .. } => "resolves",
            Command::Skip { .. } => "skips",
            Command::Delete { .. } => "deletes",
            Command::Promote { .. } => "promotions",
            Command::Expire { .. } if state == "dead_letter" => "expired for good",
            Command::Expire { .. } => "expiries",
            Command::Report { .. } => "reports",
            Command::Finish { .. } if state == "completed" => "completions",
            Command::Finish { .. } if matches!(state, "waiting_for_retry" | "pending") => "retries",
            Command::Finish { .. } if state == "dead_letter" => "dead letters",
            Command::Finish { .. } if state == "failed" => "failures for good",
            Command::Finish { .. } if state == "scheduled" => "snoozes",
            Command::Finish { .. } | Command::Claim { .. } | Command::Start { .. } => return,
        };
        self.count(sort);
    }

    /// A lease was taken from its holder: that is right only if something was wrong with it.
    fn expired(&self, holder: &WorkerId, task: TaskId, lease: Lease) {
        let long_ago = Duration::from_secs(100);
        let jumped = self.jumped_at.lock().unwrap().is_some_and(|at| at.elapsed() < Duration::from_secs(40));
        let processes = self.processes();
        let process = processes.iter().find(|process| process.name == holder.as_str());
        if !jumped && process.is_some_and(|process| process.is_well_for(long_ago)) {
            self.wrong(format!(
                "{}.{lease} was taken from {holder}, with which nothing was wrong",
                short(task)
            ));
        }
    }

    /// A heartbeat reaches the store.
    pub(crate) async fn heartbeat(&self, worker: &WorkerId, held: Vec<(TaskId, Lease)>) -> Result<Pulse> {
        let pulse = self.store.heartbeat(worker.clone(), held).await?;
        self.book().tally.add("told of a lost lease", u64::try_from(pulse.lost.len()).unwrap());
        self.book().tally.add("told of a cancel", u64::try_from(pulse.cancelled.len()).unwrap());
        Ok(pulse)
    }

    /// A worker says goodbye, or a leader forgets it.
    pub(crate) async fn deregister(&self, by: &Process, worker: &WorkerId) -> Result<()> {
        if by.name == worker.as_str() {
            let held = self.mirror().held_by(&by.name);
            if by.leaves_early() && !held.is_empty() {
                let held: Vec<_> = held.into_iter().map(short).collect();
                self.wrong(format!("{worker} says goodbye and keeps {held:?}"));
            }
        } else {
            let known = self.store.workers().await?;
            let now = windlass::Clock::now(&*self.clock);
            if known.iter().any(|row| row.id == *worker && row.is_alive(now)) {
                // It came back between the leader's look and this.
                self.count("live workers forgotten by a leader");
                *self.jumped_at.lock().unwrap() = Some(Instant::now());
            }
        }
        self.store.deregister(worker.clone()).await
    }

    /// Somebody thinks that a worker is dead, and is wrong.
    pub(crate) async fn forget(&self, worker: &WorkerId) {
        *self.jumped_at.lock().unwrap() = Some(Instant::now());
        self.store.deregister(worker.clone()).await.unwrap();
    }

    /// Somebody wants to lead.
    pub(crate) async fn campaign(&self, candidate: &WorkerId, lease: Duration) -> Result<Option<Leadership>> {
        let answer = self.mutant.campaign(self, candidate, lease).await?;
        if let Some(leadership) = &answer {
            let wrong = self.mirror().leads(candidate, leadership.term);
            self.check(wrong);
        }
        Ok(answer)
    }

    /// A leader looks.
    pub(crate) async fn due(&self, limit: usize) -> Result<Due> {
        Ok(self.mutant.due(self.store.due(limit).await?))
    }

    /// A schedule fires.
    pub(crate) async fn fire(
        &self,
        by: &Process,
        firing: Firing,
        term: Option<Term>,
    ) -> Result<Vec<Submitted>> {
        let (asked, skipped) = (firing.tasks.clone(), firing.skipped);
        let submitted = self.mutant.fire(self, firing, term).await?;
        self.check(self.mirror().led(&by.name, term));
        let wrong = self.mirror().fired(&asked, &submitted);
        self.check(wrong);
        self.book().tally.add("slots fired", u64::try_from(submitted.len()).unwrap());
        self.book().tally.add("slots left out", u64::from(skipped));
        self.ring();
        Ok(submitted)
    }

    /// Something else reaches the store.
    pub(crate) async fn other<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        let answer = call.await;
        self.ring();
        answer
    }
}
