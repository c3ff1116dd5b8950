//! A process, as the world sees it: something that calls the store and runs handlers, and may stop doing so
//! at any moment.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use windlass::{RunningWorker, WorkerId};

use super::weather::Weather;

/// So many calls of one sort in vain within [`STRETCH`], and a process hammers at a store that cannot answer.
/// Who waits twice as long each time, or a second, makes far fewer.
const IN_VAIN: u32 = 100;

/// How long calls in vain are counted.
const STRETCH: Duration = Duration::from_secs(10);

/// Whether a process runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Power {
    /// It does.
    On,
    /// It stands still, as after SIGSTOP.
    Frozen,
    /// It is gone, as after SIGKILL. Tokio's tasks cannot be killed from outside; but what never calls the
    /// store again and has no effects is not there for anybody else.
    Off,
}

/// One process: a worker, or a program that submits and intervenes.
#[derive(Debug)]
pub(crate) struct Process {
    /// Its name, which is also its worker's id.
    pub(crate) name: String,
    /// Handlers that it may run at once.
    pub(crate) pool: usize,
    /// How long it may take to stop, if nothing is wrong.
    pub(crate) grace: Duration,
    power: Mutex<Power>,
    changed: Notify,
    weather: Mutex<Weather>,
    /// Handlers that it runs.
    running: AtomicUsize,
    /// Calls of each sort that were in vain, in the last stretch of time.
    in_vain: Mutex<BTreeMap<&'static str, (Instant, u32)>>,
    /// When it was asked to stop.
    asked_to_stop: Mutex<Option<Instant>>,
    /// When it was last thawed.
    thawed_at: Mutex<Option<Instant>>,
    /// Its worker, from its start to its end. A killed one stays here: dropped, it would stop gracefully.
    pub(crate) worker: Mutex<Option<Arc<RunningWorker>>>,
}

impl Process {
    /// A process that runs.
    pub(crate) fn new(name: String, pool: usize, grace: Duration, weather: Weather) -> Self {
        Self {
            name,
            pool,
            grace,
            power: Mutex::new(Power::On),
            changed: Notify::new(),
            weather: Mutex::new(weather),
            running: AtomicUsize::new(0),
            in_vain: Mutex::default(),
            asked_to_stop: Mutex::new(None),
            thawed_at: Mutex::new(None),
            worker: Mutex::new(None),
        }
    }

    /// The id of its worker.
    pub(crate) fn worker_id(&self) -> WorkerId {
        WorkerId::new(&*self.name).unwrap()
    }

    /// What happens to its calls.
    pub(crate) fn weather(&self) -> MutexGuard<'_, Weather> {
        self.weather.lock().unwrap()
    }

    /// Whether it runs.
    pub(crate) fn power(&self) -> Power {
        *self.power.lock().unwrap()
    }

    /// Switches it on, off or to ice. Off is for ever.
    pub(crate) fn switch(&self, to: Power) {
        let mut power = self.power.lock().unwrap();
        if *power == Power::Off {
            return;
        }
        if *power == Power::Frozen {
            *self.thawed_at.lock().unwrap() = Some(Instant::now());
        }
        *power = to;
        drop(power);
        self.changed.notify_waiters();
    }

    /// Waits while it is frozen; for ever, if it is gone.
    pub(crate) async fn awake(&self) {
        loop {
            let changed = self.changed.notified();
            match self.power() {
                Power::On => return,
                Power::Frozen => changed.await,
                Power::Off => std::future::pending().await,
            }
        }
    }

    /// Whether nothing was wrong with it for this long.
    pub(crate) fn is_well_for(&self, time: Duration) -> bool {
        let recent = |at: Option<Instant>| at.is_some_and(|at| at.elapsed() < time);
        self.power() == Power::On
            && !recent(self.weather().troubled_at())
            && !recent(*self.thawed_at.lock().unwrap())
    }

    /// A call was in vain. Says whether it has been so often lately that it should have been left alone.
    pub(crate) fn hammers(&self, verb: &'static str) -> bool {
        let (now, mut in_vain) = (Instant::now(), self.in_vain.lock().unwrap());
        let (since, times) = in_vain.entry(verb).or_insert((now, 0));
        if since.elapsed() > STRETCH {
            (*since, *times) = (now, 0);
        }
        *times += 1;
        *times == IN_VAIN
    }

    /// It is asked to stop.
    pub(crate) fn ask_to_stop(&self) {
        *self.asked_to_stop.lock().unwrap() = Some(Instant::now());
    }

    /// Whether it had time left to put everything in order before it goes, and could have known of
    /// everything.
    pub(crate) fn leaves_early(&self) -> bool {
        let asked = *self.asked_to_stop.lock().unwrap();
        asked.is_some_and(|at| at.elapsed() < self.grace) && !self.weather().had_ghosts()
    }

    /// A handler begins; says how many run now.
    pub(crate) fn enter(&self) -> usize {
        self.running.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// A handler is over.
    pub(crate) fn leave(&self) {
        self.running.fetch_sub(1, Ordering::SeqCst);
    }

    /// Handlers that it runs.
    pub(crate) fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }
}
