//! Requests that wait for work.
//!
//! Callers who ask for the same (a namespace, queues and kinds) wait in one line. When something may have
//! become claimable, the first of each line looks; only if it found something, the next does. Who comes after
//! somebody has looked in vain, and has heard nothing since, does not look. So a thousand idle workers cost
//! one look, and one task wakes one of them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, timeout_at};
use windlass::{Name, Rings, Store};

use super::problem::Problem;

/// After so long the next who comes looks, whoever waits: a signal may be missed.
const LOOK_AFTER: Duration = Duration::from_secs(30);

/// How soon the next looks after a look that the store did not answer. Not at once: a store that is down
/// would be asked by all of them.
const ASK_AGAIN: Duration = Duration::from_secs(1);

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

/// That there is nothing: what had been heard before somebody looked, and when that was.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Vain {
    heard: u64,
    at: Instant,
}

/// Callers who wait for the same, in the order they came.
#[derive(Debug, Default)]
struct Line {
    waiting: VecDeque<Waiting>,
    /// Known also while nobody waits; not known, if there may be something. Whoever is called for a bell is
    /// believed to find nothing until it has looked.
    vain: Option<Vain>,
}

#[derive(Debug, Default)]
struct Lines {
    lines: HashMap<Wanted, Line>,
    /// With so many lines those are forgotten that nobody needs.
    sweep_at: usize,
    waiting: usize,
    tickets: u64,
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

/// A look at the store, for all who wait for the same. Unless it was in vain, the next looks when it is
/// dropped: there may be more, or who looked has gone away without an answer.
#[derive(Debug)]
pub(super) struct Look<'p> {
    polls: &'p Polls,
    wanted: &'p Wanted,
    is_over: bool,
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
        let heard = rings.borrow().claimable;
        tokio::spawn(call(polls.lines.clone(), rings, heard));
        polls
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was heard of the store so far, if it makes sense to look; not if somebody who wants the same has
    /// looked in vain, and nothing was heard since.
    pub(super) fn worth_a_look(&self, wanted: &Wanted) -> Result<u64, u64> {
        let heard = self.rings.borrow().claimable;
        let mut lines = self.lines();
        let known = lines.lines.get_mut(wanted).and_then(|line| line.vain.as_mut());
        match known.filter(|vain| vain.heard == heard) {
            Some(vain) if vain.at.elapsed() < LOOK_AFTER => Err(heard),
            Some(vain) => {
                // Those who come meanwhile need not.
                vain.at = Instant::now();
                Ok(heard)
            }
            None => Ok(heard),
        }
    }

    /// Begins to look.
    pub(super) fn look<'p>(&'p self, wanted: &'p Wanted) -> Look<'p> {
        Look { polls: self, wanted, is_over: false }
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.lines().waiting
    }

    /// Waits until it makes sense to look again, for one who has heard so much before it, or another, looked
    /// in vain; `false` when time is up.
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

    /// A place at the end of the line, unless something was heard or found since.
    fn line_up<'p>(&'p self, wanted: &'p Wanted, heard: u64) -> Result<Option<Place<'p>>, Problem> {
        let mut lines = self.lines();
        // Under the lock: who is not in line yet when it is called would be missed.
        if self.rings.borrow().claimable != heard || !lines.line(wanted).is_vain(heard) {
            return Ok(None);
        }
        self.admit(&mut lines)?;
        lines.tickets += 1;
        let (ticket, (call, called)) = (lines.tickets, oneshot::channel());
        lines.line(wanted).waiting.push_back(Waiting { ticket, heard, call });
        Ok(Some(Place { polls: self, wanted, ticket, called: Some(called) }))
    }
}

impl Look<'_> {
    /// There was nothing, for one who had heard so much before it looked.
    pub(super) fn in_vain(mut self, heard: u64) {
        self.is_over = true;
        let mut lines = self.polls.lines();
        let line = lines.line(self.wanted);
        // One who had heard more may have been quicker.
        if line.vain.is_none_or(|vain| vain.heard <= heard) {
            line.vain = Some(Vain { heard, at: Instant::now() });
        }
    }

    /// The store did not answer: the next looks, in a while.
    pub(super) fn failed(mut self) {
        self.is_over = true;
        let mut lines = self.polls.lines();
        let Some(line) = lines.lines.get_mut(self.wanted) else { return };
        line.vain = None;
        if !line.waiting.is_empty() {
            let (polls, wanted) = (self.polls.clone(), self.wanted.clone());
            tokio::spawn(async move {
                sleep(ASK_AGAIN).await;
                drop(polls.look(&wanted));
            });
        }
    }
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        if let Some(line) = self.polls.lines().lines.get_mut(self.wanted) {
            line.vain = None;
            line.call();
        }
    }
}

impl Lines {
    fn line(&mut self, wanted: &Wanted) -> &mut Line {
        if !self.lines.contains_key(wanted) && self.lines.len() >= self.sweep_at {
            self.lines.retain(|_, line| line.is_needed());
            self.sweep_at = 2 * self.lines.len() + 64;
        }
        self.lines.entry(wanted.clone()).or_default()
    }
}

impl Line {
    fn is_vain(&self, heard: u64) -> bool {
        self.vain.is_some_and(|vain| vain.heard == heard)
    }

    fn is_needed(&self) -> bool {
        !self.waiting.is_empty() || self.vain.is_some_and(|vain| vain.at.elapsed() < LOOK_AFTER)
    }

    /// Calls the first who is still there, if anybody is.
    fn call(&mut self) -> bool {
        std::iter::from_fn(|| self.waiting.pop_front()).any(|first| first.call.send(()).is_ok())
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut lines = self.polls.lines();
        lines.waiting -= 1;
        let Some(line) = lines.lines.get_mut(self.wanted) else { return };
        line.waiting.retain(|waiting| waiting.ticket != self.ticket);
        if self.called.as_mut().is_some_and(|called| called.try_recv().is_ok()) && !line.call() {
            // Nobody looks in its place.
            line.vain = None;
        }
    }
}

/// Calls the first of every line whenever something may have become claimable.
async fn call(lines: Arc<Mutex<Lines>>, mut rings: watch::Receiver<Rings>, mut last: u64) {
    while rings.changed().await.is_ok() {
        let heard = rings.borrow_and_update().claimable;
        if std::mem::replace(&mut last, heard) == heard {
            continue;
        }
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        // Who had heard this before it looked need not look again, nor those who came after it.
        let is_news = |line: &&mut Line| line.waiting.front().is_some_and(|first| first.heard != heard);
        for line in lines.lines.values_mut().filter(is_news) {
            line.vain = line.call().then(|| Vain { heard, at: Instant::now() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::join_all;
    use windlass::{Json, MemoryStore, NewTask, Writes};

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

    /// Looks in vain; what was heard before.
    fn look_in_vain(polls: &Polls, wanted: &Wanted) -> u64 {
        let heard = polls.worth_a_look(wanted).unwrap();
        polls.look(wanted).in_vain(heard);
        heard
    }

    fn is_called(place: &mut Place<'_>) -> bool {
        place.called.as_mut().unwrap().try_recv().is_ok()
    }

    #[tokio::test]
    async fn one_is_called_and_calls_the_next() {
        let (store, wanted) = (MemoryStore::default(), &wanted());
        let polls = Polls::start(&store, 10);
        let heard = look_in_vain(&polls, wanted);
        let later = Instant::now() + Duration::from_secs(60);
        let mut waits = Vec::new();
        for _ in 0..3 {
            let (polls, wanted) = (polls.clone(), wanted.clone());
            waits.push(tokio::spawn(async move { polls.wait(&wanted, heard, later).await }));
        }
        lined_up(&polls, 3).await;
        assert_eq!(polls.worth_a_look(wanted), Err(heard), "others have looked");
        submit(&store).await;
        lined_up(&polls, 2).await;
        drop(polls.look(wanted));
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
        let heard = look_in_vain(&polls, wanted);
        let first = polls.line_up(wanted, heard).unwrap().unwrap();
        let mut second = polls.line_up(wanted, heard).unwrap().unwrap();
        submit(&store).await;
        while polls.lines().lines[wanted].waiting.len() == 2 {
            tokio::task::yield_now().await;
        }
        assert!(!is_called(&mut second));
        drop(first);
        assert_eq!(polls.lines().lines[wanted].waiting.len(), 0, "the second is called");
        assert_eq!(polls.worth_a_look(wanted), Err(heard + 1), "the second does");
        drop(second);
        assert!(polls.worth_a_look(wanted).is_ok(), "nobody has looked");
    }

    #[tokio::test]
    async fn what_rang_or_was_found_meanwhile_is_not_waited_for() {
        let (store, wanted) = (MemoryStore::default(), &wanted());
        let polls = Polls::start(&store, 1);
        let heard = look_in_vain(&polls, wanted);
        submit(&store).await;
        assert!(polls.line_up(wanted, heard).unwrap().is_none());
        let heard = look_in_vain(&polls, wanted);
        let place = polls.line_up(wanted, heard).unwrap();
        let refused = polls.line_up(wanted, heard).unwrap_err();
        assert_eq!((refused.status, &*refused.code), (503, "overloaded"));
        drop(place);
        assert!(!polls.wait(wanted, heard, Instant::now()).await.unwrap(), "time is up");
        assert_eq!(polls.waiting(), 0);
        // Another looks in between and finds something, which may not be all.
        assert_eq!(polls.worth_a_look(wanted), Err(heard));
        drop(polls.look(wanted));
        assert!(polls.line_up(wanted, heard).unwrap().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_look_that_failed_the_next_looks_in_a_while() {
        let (store, wanted) = (MemoryStore::default(), &wanted());
        let polls = Polls::start(&store, 10);
        let heard = look_in_vain(&polls, wanted);
        let mut places: Vec<_> = (0..3).map(|_| polls.line_up(wanted, heard).unwrap().unwrap()).collect();
        polls.look(wanted).failed();
        assert!(places.iter_mut().all(|place| !is_called(place)));
        assert!(polls.worth_a_look(wanted).is_ok(), "who comes need not wait for it");
        sleep(ASK_AGAIN * 2).await;
        assert_eq!(places.iter_mut().filter_map(|place| is_called(place).then_some(())).count(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_thousand_who_come_back_in_vain_cost_one_look_in_a_period() {
        let (store, wanted) = (MemoryStore::default(), wanted());
        let polls = Polls::start(&store, 1_000);
        let looks = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        look_in_vain(&polls, &wanted);
        let (periods, begun) = (10, Instant::now());
        let polling = (0..1_000).map(|n| {
            let (polls, wanted, looks) = (polls.clone(), wanted.clone(), looks.clone());
            tokio::spawn(async move {
                // All of them at once, or spread over the period.
                if n % 2 == 0 {
                    sleep(LOOK_AFTER * n / 1_000).await;
                }
                while begun.elapsed() < LOOK_AFTER * periods {
                    let heard = match polls.worth_a_look(&wanted) {
                        Ok(heard) => {
                            looks.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                            let look = polls.look(&wanted);
                            // The store takes a while; others come meanwhile.
                            sleep(Duration::from_millis(10)).await;
                            look.in_vain(heard);
                            heard
                        }
                        Err(heard) => heard,
                    };
                    assert!(!polls.wait(&wanted, heard, Instant::now() + LOOK_AFTER).await.unwrap());
                }
            })
        });
        for ended in join_all(polling).await {
            ended.unwrap();
        }
        let looks = looks.load(std::sync::atomic::Ordering::Relaxed);
        assert!((1..=periods as usize).contains(&looks), "{looks} looks");
    }

    #[tokio::test(start_paused = true)]
    async fn lines_that_nobody_needs_are_forgotten() {
        let polls = Polls::start(&MemoryStore::default(), 10);
        for n in 0..1_000 {
            let wanted = Wanted { kinds: vec![Name::stored(&format!("k{n}"))], ..wanted() };
            look_in_vain(&polls, &wanted);
            sleep(LOOK_AFTER).await;
        }
        assert!(polls.lines().lines.len() < 100);
    }
}
