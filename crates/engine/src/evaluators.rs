//! Threads for work whose cost a caller chooses: reading definitions, compiling and evaluating expressions,
//! schemas, drawings.
//!
//! Such work must not run where requests are answered and timers fire: a request that computes for a second
//! would hold up everybody's heartbeats. It runs on threads of its own, on all processors but one (on one, if
//! there is only one). A caller that finds all of them busy waits for a place, in the order of arrival. A
//! caller that goes away leaves the line; work that has begun goes on to its end and keeps its place until
//! then, so what callers have left behind is never more than there are places.
//!
//! What is *not* here: no limit of time. How much work there is in an expression or a schema is bounded by
//! counting, so that its result is the same on every machine; only the wait for a place has an end, and it
//! changes no result.

use std::num::NonZero;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

/// How many may wait for a place before [`is_full`] says so. Each works for a fifth of a second at most,
/// unless it has very many items.
pub const MOST_WAITING: usize = 64;

/// Places of this process.
static EVALUATORS: LazyLock<Evaluators> = LazyLock::new(|| Evaluators::new(processors()));

/// All processors but one; one, if there is only one.
fn processors() -> usize {
    available_parallelism().map_or(1, NonZero::get).saturating_sub(1).max(1)
}

/// Places for reading.
static READERS: LazyLock<Evaluators> = LazyLock::new(|| Evaluators::new(processors()));

/// Bytes that are read where they arrive: a fraction of a millisecond.
const SHORT: usize = 64 << 10;

/// All evaluators are busy, and others wait for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Busy;

/// Runs work on a thread of its own, as soon as there is a place.
pub async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let place = EVALUATORS.place().await;
    run_at(place, work).await
}

/// The same, if there is a place by `until`. What has begun by then comes to its end.
pub async fn run_by<T: Send + 'static>(
    until: Instant,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Busy> {
    let place = timeout_at(until, EVALUATORS.place()).await.map_err(|_| Busy)?;
    Ok(run_at(place, work).await)
}

/// Reads what somebody has sent. That takes time in proportion to its length, so it does not wait for work
/// that may take long; it has as many places of its own. What is short is read here.
pub async fn read<T: Send + 'static>(bytes: usize, work: impl FnOnce() -> T + Send + 'static) -> T {
    if bytes <= SHORT {
        return work();
    }
    let place = READERS.place().await;
    run_at(place, work).await
}

/// Whether as many wait for a place as may. Servers refuse further requests then.
#[must_use]
pub fn is_full() -> bool {
    EVALUATORS.waiting.load(Ordering::Relaxed) >= MOST_WAITING
}

struct Evaluators {
    places: std::sync::Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl Evaluators {
    fn new(places: usize) -> Self {
        Self { places: Semaphore::new(places).into(), waiting: AtomicUsize::new(0) }
    }

    async fn place(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = self.places.clone().try_acquire_owned() {
            return Some(place);
        }
        let _waiting = InLine::new(&self.waiting);
        // It is never closed.
        self.places.clone().acquire_owned().await.ok()
    }
}

/// Somebody who waits for a place, or has gone away.
struct InLine<'a>(&'a AtomicUsize);

impl<'a> InLine<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn run_at<T: Send + 'static>(
    place: Option<OwnedSemaphorePermit>,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let working = spawn_blocking(move || {
        let _place = place;
        work()
    });
    match working.await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends, and this with it.
            Err(_) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn callers_that_go_away_leave_the_line_and_what_they_began_keeps_its_place() {
        let evaluators = Evaluators::new(1);
        let (go, gone) = mpsc::channel::<()>();
        let place = evaluators.place().await;
        let begun = tokio::spawn(run_at(place, move || gone.recv().is_ok()));
        let by = Instant::now() + std::time::Duration::from_millis(1);
        assert!(timeout_at(by, evaluators.place()).await.is_err(), "the only place is taken");
        assert_eq!(evaluators.waiting.load(Ordering::Relaxed), 0, "and nobody waits any more");
        begun.abort();
        let _ = begun.await;
        tokio::task::yield_now().await;
        assert!(evaluators.places.clone().try_acquire_owned().is_err(), "it goes on without its caller");
        go.send(()).unwrap();
        assert!(evaluators.place().await.is_some(), "and ends");
    }
}
