//! One run: a directory with a store and the logs of all who use it, seen from the process that watches over
//! the others.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use tokio::time::timeout;
use windlass::{Client, Filter, Page, Record, State, Store, SystemClock, TaskId, Windlass, WorkerId};
use windlass_store::conformance::checker::{Event, Journal, check, check_workflows, read};
use windlass_store::conformance::invariants;

use super::logged::Logged;
use super::part::{self, Handlers, Part, Role, Work};
use super::process::{PATIENCE, Process};

/// Where the logs are.
pub(crate) fn log(place: &Path) -> PathBuf {
    place.join("log")
}

/// A number that a longer run sets.
pub(crate) fn number(variable: &str, otherwise: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}={text:?} is not a number")),
        Err(_) => otherwise,
    }
}

/// The seed of this run, printed. It repeats the plan: which tasks, which victims, in which order. The
/// moments are the machine's.
pub(crate) fn seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let seed = number("WINDLASS_SEED", u64::from(now.subsec_nanos()));
    println!("WINDLASS_SEED={seed}");
    seed
}

/// A directory in memory, where there is such a thing.
fn in_memory() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

/// A run.
pub(crate) struct Stage {
    test: &'static str,
    place: TempDir,
    /// The address of the store.
    pub(crate) address: String,
    pub(crate) client: Client,
    windlass: Windlass,
    /// Processes that were started, for names.
    started: usize,
}

impl Stage {
    /// An empty SQLite file. In memory where that can be, unless every commit is to go to the disk: a process
    /// leaves the same behind.
    pub(crate) async fn on_sqlite(test: &'static str, full: bool) -> Self {
        let place = if full { tempfile::tempdir().unwrap() } else { in_memory() };
        let durability = if full { "full" } else { "normal" };
        let file = place.path().join("windlass.db");
        Self::new(test, place, format!("sqlite:{}?durability={durability}", file.display())).await
    }

    /// The empty schema of a database at `address`. The directory is for the logs.
    pub(crate) async fn on_postgres(test: &'static str, address: String) -> Self {
        Self::new(test, in_memory(), address).await
    }

    async fn new(test: &'static str, place: TempDir, address: String) -> Self {
        std::fs::create_dir(log(place.path())).unwrap();
        let inner = windlass::open(&address).await.unwrap();
        let journal = Journal::create(&log(place.path()), "watcher").unwrap();
        let windlass = Logged::quiet(journal).around(inner);
        Self { test, place, address, client: windlass.client(), windlass, started: 0 }
    }

    /// A log in this run's directory.
    pub(crate) fn journal(&self, who: &str) -> Journal {
        Journal::create(&log(self.place.path()), who).unwrap()
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &**self.windlass.store()
    }

    /// Starts a process. Its name is fresh.
    pub(crate) fn start(&mut self, name: &str, role: Role) -> Process {
        self.started += 1;
        let part = Part { who: format!("{name}-{}", self.started), address: self.address.clone(), role };
        Process::start(self.test, &part, self.place.path())
    }

    /// A process whose worker does nothing but lead, and leads.
    pub(crate) async fn leader(&mut self, dead_after: Duration) -> Process {
        let leader = self.start("leader", Role::Work(Work::new(Handlers::Leader, 1, dead_after)));
        self.until(async |stage| stage.leads(&leader.who).await).await;
        leader
    }

    /// Whether a worker leads.
    pub(crate) async fn leads(&self, who: &str) -> bool {
        let (leader, now) = (self.store().leader().await.unwrap(), self.store().now().await.unwrap());
        leader.is_some_and(|leader| leader.holder.as_str() == who && leader.until > now)
    }

    /// A task, when it is final.
    pub(crate) async fn finished(&self, task: TaskId) -> Record {
        let finished = timeout(PATIENCE, self.client.wait(task)).await;
        finished.unwrap_or_else(|_| panic!("{task} does not end")).unwrap().0
    }

    /// Where a task is.
    pub(crate) async fn state(&self, task: TaskId) -> State {
        self.client.get(task).await.unwrap().unwrap().task.status.state
    }

    /// How many tasks a worker holds.
    pub(crate) async fn holdings(&self, who: &str) -> usize {
        let (worker, states) = (Some(WorkerId::new(who).unwrap()), vec![State::Claimed, State::Running]);
        let filter = Filter { states, worker, ..Filter::default() };
        let (mut held, mut page) = (0, Page { limit: 1_000, ..Page::default() });
        loop {
            let listing = self.client.list(filter.clone(), page).await.unwrap();
            held += listing.tasks.len();
            page.after = listing.next;
            if page.after.is_none() {
                return held;
            }
        }
    }

    /// Waits until something is so. Looks whenever anybody has written.
    pub(crate) async fn until(&self, is_so: impl AsyncFn(&Self) -> bool) {
        let mut rings = self.store().watch();
        let wait = async {
            loop {
                rings.mark_unchanged();
                if is_so(self).await {
                    return;
                }
                // Some things become so by the passing of time alone.
                drop(timeout(Duration::from_millis(100), rings.changed()).await);
            }
        };
        if timeout(PATIENCE, wait).await.is_err() {
            let counts = self.client.stats().await.unwrap();
            let (workers, leader) =
                (self.client.workers().await.unwrap(), self.store().leader().await.unwrap());
            panic!("it does not become so: {counts:#?}\n{workers:#?}\n{leader:#?}");
        }
    }

    /// Waits until so many tasks are final.
    pub(crate) async fn until_final(&self, tasks: u64) {
        self.until(async |stage| part::tasks(&stage.client, |state| state.is_final()).await >= tasks).await;
    }

    /// Whether a write of this process succeeds soon: nobody was stopped in the middle of one.
    pub(crate) async fn can_write(&self) -> bool {
        let written = timeout(Duration::from_millis(500), self.client.register_entity("probe:1")).await;
        written.is_ok_and(|written| written.is_ok())
    }

    /// Stops a process past everything that holds up others: whoever is stopped in the middle of a write goes
    /// on and is stopped again.
    pub(crate) async fn stop_between_writes(&self, process: &Process) {
        loop {
            process.signal("STOP");
            if self.can_write().await {
                return;
            }
            println!("{} was stopped in the middle of a write", process.who);
            process.signal("CONT");
        }
    }

    /// What the logs and the store say when all is over, after the checker and the invariants have found
    /// nothing.
    pub(crate) async fn over(&self) -> (Vec<Event>, Vec<Record>) {
        let events = read(&log(self.place.path())).unwrap();
        let records = invariants::dump(self.store()).await;
        let mut found = check(&events, &records, true);
        let workflows = invariants::dump_workflows(self.store()).await;
        found.extend(check_workflows(&events, &records, &workflows));
        let words: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "{} promises are broken:\n{}", found.len(), words.join("\n"));
        invariants::check(self.store(), &SystemClock).await;
        (events, records)
    }
}
