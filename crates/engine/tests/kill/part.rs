//! What a process does that was started by a test: it works, or it submits, until it is told to stop or
//! killed.

use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use windlass::{Client, Context, Lease, RunningWorker, State, Store, TaskId, Windlass, WorkerId};
use windlass_store::conformance::checker::Journal;

use super::chores;
use super::gates::{Gates, say};
use super::logged::Logged;
use super::random::Random;

/// Tasks that may wait: a submitter that is this far ahead waits for the workers, so that all of them last as
/// long as the run.
const AHEAD: u64 = 1_000;

/// The part of one process.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) struct Part {
    /// Its name: that of its log and of its worker.
    pub(crate) who: String,
    /// The address of the store.
    pub(crate) address: String,
    pub(crate) role: Role,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) enum Role {
    Work(Work),
    Submit(Submit),
}

#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Handlers {
    Worker,
    Zombie,
    Leader,
}

/// How a worker is set.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) struct Work {
    pub(crate) handlers: Handlers,
    pub(crate) pool: usize,
    /// Claims that may wait for a handler to end.
    pub(crate) buffer: usize,
    pub(crate) dead_after: Duration,
    pub(crate) leads: bool,
    /// Whether it says aloud what it does.
    pub(crate) aloud: bool,
    pub(crate) freeze_at: Option<String>,
}

impl Work {
    /// A worker that may lead, claims as much in advance as it can run at once, and is quiet.
    pub(crate) fn new(handlers: Handlers, pool: usize, dead_after: Duration) -> Self {
        Self { handlers, pool, buffer: pool, dead_after, leads: true, aloud: false, freeze_at: None }
    }
}

/// Which tasks of the load are submitted.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) struct Submit {
    pub(crate) seed: u64,
    /// Of two submitters, which: every second task is this one's, and every fifth is both's.
    pub(crate) which: u64,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// Plays the part that this process was started for, or else runs the test.
pub(crate) fn play<F: Future<Output = ()>>(test: impl FnOnce() -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    match super::process::part() {
        Some((part, place)) => runtime.block_on(act(part, &place)),
        None => runtime.block_on(test()),
    }
}

/// Plays a part to its end.
async fn act(part: Part, place: &Path) {
    let journal = Journal::create(&super::stage::log(place), &part.who).unwrap();
    let inner = windlass::open(&part.address).await.unwrap();
    match part.role {
        Role::Work(work) => labour(&part.who, work, inner, journal).await,
        Role::Submit(submit) => hand_in(submit, inner, journal).await,
    }
}

/// Does what the watcher says, line by line. The answer comes when it is to stop; also when the watcher is
/// gone.
fn obey(gates: Arc<Gates>) -> oneshot::Receiver<()> {
    let (stop, told) = oneshot::channel();
    std::thread::spawn(move || {
        let mut stop = Some(stop);
        for order in std::io::stdin().lock().lines().map_while(Result::ok) {
            match order.split_once(' ') {
                Some(("open", gate)) => gates.open(gate),
                _ => assert_eq!(stop.take().map(|stop| stop.send(())), Some(Ok(())), "{order:?}"),
            }
        }
        if let Some(stop) = stop {
            // Nobody waits for it when the process is about to end anyway.
            let _ = stop.send(());
        }
    });
    told
}

async fn labour(who: &str, work: Work, inner: Arc<dyn Store>, journal: Journal) {
    let gates = Gates::new(work.freeze_at.clone());
    let logged = Logged { journal: journal.clone(), gates: gates.clone(), aloud: work.aloud };
    let windlass = logged.around(inner);
    let worker = start(&windlass, who, &work, &gates, journal).await;
    let told = obey(gates.clone());
    say("started");
    told.await.unwrap();
    gates.stopping.store(true, Ordering::SeqCst);
    say("stopping");
    worker.stop().await.unwrap();
    windlass.close().await.unwrap();
    say(&format!("heartbeats {}", gates.heartbeats.load(Ordering::SeqCst)));
    say(&format!("most {}", gates.most_active()));
}

/// Starts a worker that writes down what its handlers do.
pub(crate) async fn start(
    windlass: &Windlass,
    who: &str,
    work: &Work,
    gates: &Arc<Gates>,
    journal: Journal,
) -> RunningWorker {
    let (aloud, counted) = (work.aloud, gates.clone());
    let worker = windlass.worker();
    let worker = match work.handlers {
        Handlers::Worker => chores::of_a_worker(worker),
        Handlers::Zombie => chores::of_a_zombie(worker),
        Handlers::Leader => chores::of_a_leader(worker),
    };
    let worker = worker
        .id(WorkerId::new(who).unwrap())
        .share(gates.clone())
        .pool(work.pool)
        .buffer(work.buffer)
        .dead_after(work.dead_after)
        .leads(work.leads)
        .around(move |context, next| {
            let (journal, gates) = (journal.clone(), counted.clone());
            async move {
                let _active = gates.enter();
                let _ends = Ends::of(&context, journal);
                if aloud {
                    say("begun");
                }
                next.run(context).await
            }
        });
    worker.start().await.unwrap()
}

/// Writes down the end of a handler, also of one that is dropped.
struct Ends {
    journal: Journal,
    task: TaskId,
    lease: Lease,
}

impl Ends {
    fn of(context: &Context, journal: Journal) -> Self {
        journal.handler_started(context.task());
        Self { journal, task: context.id(), lease: context.lease() }
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.journal.handler_ended(self.task, self.lease);
    }
}

/// Submits its share of the load in batches of all sizes, and says how far it is.
async fn hand_in(submit: Submit, inner: Arc<dyn Store>, journal: Journal) {
    let Submit { seed, which, from, to } = submit;
    let windlass = Logged::quiet(journal).around(inner);
    let client = windlass.client();
    let mut random = Random::of(seed, from << 1 | which);
    let mut share = (from..to).filter(|n| n % 2 == which || n % 5 == 0).peekable();
    say("started");
    while share.peek().is_some() {
        wait_for_workers(&client).await;
        let many = random.pick(&[1, 1, 3, 10, 30]);
        let numbers: Vec<u64> = share.by_ref().take(many).collect();
        let tasks = numbers.iter().map(|n| chores::planned(&client, seed, *n)).collect();
        client.submit_all(tasks).await.unwrap();
        say(&format!("submitted {}", numbers.last().unwrap()));
    }
    windlass.close().await.unwrap();
}

async fn wait_for_workers(client: &Client) {
    let mut rings = client.store().watch();
    loop {
        rings.mark_unchanged();
        if tasks(client, |state| !state.is_final()).await < AHEAD {
            return;
        }
        rings.changed().await.unwrap();
    }
}

/// How many tasks are in states that are `wanted`.
pub(crate) async fn tasks(client: &Client, wanted: impl Fn(State) -> bool) -> u64 {
    let counts = client.stats().await.unwrap();
    counts.iter().filter(|count| wanted(count.state)).map(|count| count.tasks).sum()
}
