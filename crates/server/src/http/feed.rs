//! The feed of changes, read from the store once for all who listen.
//!
//! One task follows the store while anybody listens, and remembers the last events; who is further behind
//! reads the store by itself until it has caught up. So a hundred open pages cost one reader.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::sleep;
use tracing::warn;
use windlass::{Error, Event, EventId, Events, Store};

/// How long the store is left alone if nothing rings: what only changes hands rings nobody.
const LOOK: Duration = Duration::from_millis(250);

/// The least time between two looks, however often the store rings.
const REST: Duration = Duration::from_millis(10);

/// Events that are remembered.
const REMEMBERED: usize = 10_000;

/// Events that are read, or told, at once.
pub(super) const AT_ONCE: usize = 500;

/// What is remembered: all events after `since` up to `end`.
#[derive(Debug)]
struct Memory {
    since: EventId,
    end: EventId,
    events: VecDeque<Event>,
}

#[derive(Debug)]
struct Inner {
    store: Arc<dyn Store>,
    /// Nothing while nobody listens.
    memory: Mutex<Option<Memory>>,
    listeners: AtomicUsize,
    /// Somebody has begun to listen.
    begun: Notify,
    /// Goes up with every look that found something.
    looks: watch::Sender<u64>,
}

/// The feed. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Feed(Arc<Inner>);

/// Somebody who listens.
#[derive(Debug)]
pub(super) struct Listener {
    feed: Feed,
    looks: watch::Receiver<u64>,
}

impl Feed {
    pub(super) fn start(store: Arc<dyn Store>) -> Self {
        let feed = Self(Arc::new(Inner {
            store,
            memory: Mutex::new(None),
            listeners: AtomicUsize::new(0),
            begun: Notify::new(),
            looks: watch::Sender::default(),
        }));
        tokio::spawn(feed.clone().follow());
        feed
    }

    pub(super) fn listen(&self) -> Listener {
        let looks = self.0.looks.subscribe();
        self.0.listeners.fetch_add(1, Ordering::AcqRel);
        self.0.begun.notify_one();
        Listener { feed: self.clone(), looks }
    }

    /// How many listen.
    pub(super) fn listeners(&self) -> usize {
        self.0.listeners.load(Ordering::Acquire)
    }

    fn memory(&self) -> MutexGuard<'_, Option<Memory>> {
        self.0.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn follow(self) {
        let mut rings = self.0.store.watch();
        loop {
            if self.listeners() == 0 {
                *self.memory() = None;
                self.0.begun.notified().await;
                continue;
            }
            rings.borrow_and_update();
            let more = match self.look().await {
                Ok(more) => more,
                Err(Error::Closed) => return,
                Err(error) => {
                    warn!(%error, "the feed of changes waits for the store");
                    sleep(LOOK).await;
                    false
                }
            };
            if !more {
                tokio::select! {
                    biased;
                    _ = rings.changed() => sleep(REST).await,
                    () = sleep(LOOK) => {}
                }
            }
        }
    }

    /// Reads on; says whether there is likely more.
    async fn look(&self) -> Result<bool, Error> {
        let end = self.memory().as_ref().map(|memory| memory.end);
        let Events { events, last, complete } = self.0.store.events(end, AT_ONCE).await?;
        let (found, more) = (!events.is_empty(), events.len() == AT_ONCE);
        let mut memory = self.memory();
        match memory.as_mut().filter(|_| complete) {
            Some(memory) => {
                memory.events.extend(events);
                memory.end = last;
                while memory.events.len() > REMEMBERED {
                    if let Some(first) = memory.events.pop_front() {
                        memory.since = first.id;
                    }
                }
            }
            // The beginning, or something is missing: what is known begins here.
            None => *memory = Some(Memory { since: last, end: last, events: VecDeque::new() }),
        }
        drop(memory);
        if found || !complete {
            self.0.looks.send_modify(|looks| *looks += 1);
        }
        Ok(more)
    }
}

impl Listener {
    /// Where to begin, for one who has heard nothing yet: whatever changes from now on is told.
    pub(super) async fn beginning(&self) -> Result<EventId, Error> {
        Ok(self.feed.0.store.events(None, AT_ONCE).await?.last)
    }

    /// What comes after a place, from memory if it is there.
    pub(super) async fn after(&mut self, place: EventId) -> Result<Events, Error> {
        self.looks.borrow_and_update();
        let is_known = |memory: &&Memory| (memory.since..=memory.end).contains(&place);
        if let Some(memory) = self.feed.memory().as_ref().filter(is_known) {
            let first = memory.events.partition_point(|event| event.id <= place);
            let events: Vec<Event> = memory.events.iter().skip(first).take(AT_ONCE).cloned().collect();
            let last = events.last().map_or(memory.end.max(place), |event| event.id);
            return Ok(Events { events, last, complete: true });
        }
        self.feed.0.store.events(Some(place), AT_ONCE).await
    }

    /// Comes when there may be more.
    pub(super) async fn changed(&mut self) {
        let _ = self.looks.changed().await;
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.feed.0.listeners.fetch_sub(1, Ordering::AcqRel);
    }
}
