//! Requests that wait for work.
//!
//! Callers who ask for the same (a namespace, queues and kinds) wait in one line. When something may have become claimable, the first of each
//! line looks; only if it found something, the next does. So a thousand idle workers cost one look, and one task wakes one of them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, timeout_at};
use windlass::{Name, Rings, Store};

use super::problem::Problem;

/// After so long the next who comes looks, whoever waits: a signal may be missed.
const LOOK_AFTER: Duration = Duration::from_secs(30);

/// What callers ask for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Wanted {
    pub(super) namespace: Name,
    pub(super) queues: Vec<Name>,
    pub(super) kinds: Vec<Name>,
}

/// A caller who waits, and what it had heard before it looked in vain.
#[derive(Debug)]
struct Waiting {
    ticket: u64,
    heard: u64,
    call: oneshot::Sender<()>,
}

/// Callers who wait for the same, in the order they came.
#[derive(Debug)]
struct Line {
    waiting: VecDeque<Waiting>,
    looked_at: Instant,
}

#[derive(Debug, Default)]
struct Lines {
    lines: HashMap<Wanted, Line>,
    waiting: usize,
    tickets: u64,
    /// What every line was called for.
    heard: u64,
}

/// All that wait.
#[derive(Clone, Debug)]
pub(super) struct Polls {
    lines: Arc<Mutex<Lines>>,
    rings: watch::Receiver<Rings>,
    most: usize,
}

/// A place in a line. Whoever was called and leaves without having looked calls the next.
#[derive(Debug)]
struct Place<'p> {
    polls: &'p Polls,
    wanted: &'p Wanted,
    ticket: u64,
    called: Option<oneshot::Receiver<()>>,
}

/// A place among those who wait, of one who waits for something else than work.
#[derive(Debug)]
pub(super) struct Seat<'p>(&'p Polls);

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.0.lines().waiting -= 1;
    }
}

impl Polls {
    /// Listens to a store. At most `most` may wait at once.
    pub(super) fn start(store: &dyn Store, most: usize) -> Self {
        let rings = store.watch();
        let polls = Self { lines: Arc::default(), rings: rings.clone(), most };
        tokio::spawn(call(polls.lines.clone(), rings));
        polls
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was heard of the store so far, if it makes sense to look; not if others who want the same have looked in vain just now and are
    /// waiting.
    pub(super) fn look(&self, wanted: &Wanted) -> Result<u64, u64> {
        let heard = self.rings.borrow().claimable;
        let lines = self.lines();
        let others = lines.lines.get(wanted).filter(|line| line.looked_at.elapsed() < LOOK_AFTER);
        if others.is_some() && lines.heard == heard { Err(heard) } else { Ok(heard) }
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.lines().waiting
    }

    /// Calls the next who waits for the same: there may be more than one caller could take.
    pub(super) fn call_next(&self, wanted: &Wanted) {
        if let Some(line) = self.lines().lines.get_mut(wanted) {
            line.call();
        }
    }

    /// Waits until it makes sense to look again, for one who has looked in vain after having `heard` so much; `false` when time is up.
    pub(super) async fn wait(&self, wanted: &Wanted, heard: u64, until: Instant) -> Result<bool, Problem> {
        let Some(mut place) = self.line_up(wanted, heard)? else { return Ok(true) };
        let Some(called) = place.called.as_mut() else { return Ok(true) };
        let was_called = timeout_at(until, called).await.is_ok();
        if was_called {
            place.called = None;
        }
        Ok(was_called)
    }

    /// Counts one more who waits.
    fn admit(&self, lines: &mut Lines) -> Result<(), Problem> {
        if lines.waiting >= self.most {
            return Err(Problem::overloaded(format!(
                "{} requests wait for work already; try again later, or ask another server",
                lines.waiting
            )));
        }
        lines.waiting += 1;
        Ok(())
    }

    /// A place for one who waits for something else than work.
    pub(super) fn seat(&self) -> Result<Seat<'_>, Problem> {
        self.admit(&mut self.lines())?;
        Ok(Seat(self))
    }

    /// A place at the end of the line, unless something was heard since.
    fn line_up<'p>(&'p self, wanted: &'p Wanted, heard: u64) -> Result<Option<Place<'p>>, Problem> {
        let mut lines = self.lines();
        // Under the lock: who is not in line yet when it is called would be missed.
        if self.rings.borrow().claimable != heard {
            return Ok(None);
        }
        self.admit(&mut lines)?;
        lines.tickets += 1;
        let (ticket, (call, called)) = (lines.tickets, oneshot::channel());
        let line = lines
            .lines
            .entry(wanted.clone())
            .or_insert_with(|| Line { waiting: VecDeque::new(), looked_at: Instant::now() });
        line.waiting.push_back(Waiting { ticket, heard, call });
        Ok(Some(Place { polls: self, wanted, ticket, called: Some(called) }))
    }
}

impl Line {
    /// Calls the first who is still there.
    fn call(&mut self) {
        self.looked_at = Instant::now();
        while let Some(first) = self.waiting.pop_front() {
            if first.call.send(()).is_ok() {
                return;
            }
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut lines = self.polls.lines();
        lines.waiting -= 1;
        let Some(line) = lines.lines.get_mut(self.wanted) else { return };
        line.waiting.retain(|waiting| waiting.ticket != self.ticket);
        if self.called.as_mut().is_some_and(|called| called.try_recv().is_ok()) {
            line.call();
        }
        if line.waiting.is_empty() {
            lines.lines.remove(self.wanted);
        }
    }
}

/// Calls the first of every line whenever something may have become claimable.
async fn call(lines: Arc<Mutex<Lines>>, mut rings: watch::Receiver<Rings>) {
    while rings.changed().await.is_ok() {
        let heard = rings.borrow_and_update().claimable;
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut lines.heard, heard) != heard {
            // Who had heard this before it looked need not look again, nor those who came after it.
            let is_news = |line: &&mut Line| line.waiting.front().is_some_and(|first| first.heard != heard);
            lines.lines.values_mut().filter(is_news).for_each(Line::call);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::join_all;
    use windlass::{Json, MemoryStore, NewTask};

    fn wanted() -> Wanted {
        let one = |name| vec![Name::stored(name)];
        Wanted { namespace: Name::default(), queues: one("default"), kinds: one("x") }
    }

    async fn submit(store: &MemoryStore) {
        let task = NewTask::new(windlass::task_id(), Name::stored("x"), Json::default());
        store.submit(vec![task]).await.unwrap();
    }

    /// Waits until so many are in line.
    async fn lined_up(polls: &Polls, many: usize) {
        while polls.waiting() != many {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn one_is_called_and_calls_the_next() {
        let (store, wanted) = (MemoryStore::default(), &wanted());
        let polls = Polls::start(&store, 10);
        let heard = polls.look(wanted).unwrap();
        let later = Instant::now() + Duration::from_secs(60);
        let mut waits = Vec::new();
        for _ in 0..3 {
            let (polls, wanted) = (polls.clone(), wanted.clone());
            waits.push(tokio::spawn(async move { polls.wait(&wanted, heard, later).await }));
        }
        lined_up(&polls, 3).await;
        assert_eq!(polls.look(wanted), Err(heard), "others have looked");
        submit(&store).await;
        lined_up(&polls, 2).await;
        polls.call_next(wanted);
        lined_up(&polls, 1).await;
        waits.iter().for_each(tokio::task::JoinHandle::abort);
        lined_up(&polls, 0).await;
        let ended: Vec<_> = join_all(waits).await;
        assert_eq!(ended.into_iter().filter(|one| matches!(one, Ok(Ok(true)))).count(), 2);
    }

    #[tokio::test]
    async fn who_was_called_and_left_lets_the_next_look() {
        let (store, wanted) = (MemoryStore::default(), &wanted());
        let polls = Polls::start(&store, 10);
        let heard = polls.look(wanted).unwrap();
        let first = polls.line_up(wanted, heard).unwrap().unwrap();
        let mut second = polls.line_up(wanted, heard).unwrap().unwrap();
        submit(&store).await;
        while polls.lines().heard == 0 {
            tokio::task::yield_now().await;
        }
        assert!(second.called.as_mut().unwrap().try_recv().is_err());
        drop(first);
        assert_eq!(second.called.as_mut().unwrap().try_recv(), Ok(()));
    }

    #[tokio::test]
    async fn what_rang_meanwhile_is_not_waited_for() {
        let (store, wanted) = (MemoryStore::default(), &wanted());
        let polls = Polls::start(&store, 1);
        let heard = polls.look(wanted).unwrap();
        submit(&store).await;
        assert!(polls.line_up(wanted, heard).unwrap().is_none());
        let heard = polls.look(wanted).unwrap();
        let place = polls.line_up(wanted, heard).unwrap();
        let refused = polls.line_up(wanted, heard).unwrap_err();
        assert_eq!((refused.status, &*refused.code), (503, "overloaded"));
        drop(place);
        assert!(!polls.wait(wanted, heard, Instant::now()).await.unwrap(), "time is up");
        assert!(polls.lines().lines.is_empty() && polls.waiting() == 0);
    }
}
