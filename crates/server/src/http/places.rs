//! Places for requests that the guard does not count: claims and heartbeats, most of which wait.

use tokio::sync::{Semaphore, SemaphorePermit};

use super::{Answered, Limits, Problem};

/// How many may be at it at once.
#[derive(Debug)]
pub(super) struct Places {
    claims: Semaphore,
    /// As many as claims: each worker has one of both.
    heartbeats: Semaphore,
    /// Claims that have the store look, or report. Those who find no place wait for one: they have one among claims.
    turns: std::sync::Arc<Semaphore>,
}

/// A place.
#[must_use]
pub(super) struct Taken<'p> {
    _place: SemaphorePermit<'p>,
}

/// A place that a task of its own may hold.
#[must_use]
pub(super) struct Turn {
    _place: Option<tokio::sync::OwnedSemaphorePermit>,
}

impl Places {
    pub(super) fn new(limits: &Limits) -> Self {
        let [claims, heartbeats] = [limits.polls, limits.polls].map(Semaphore::new);
        Self { claims, heartbeats, turns: Semaphore::new(limits.requests).into() }
    }

    /// For a claim, from its beginning to its end.
    pub(super) fn claim(&self) -> Answered<Taken<'_>> {
        take(&self.claims, "claims")
    }

    /// For a heartbeat, from its beginning to its end.
    pub(super) fn heartbeat(&self) -> Answered<Taken<'_>> {
        take(&self.heartbeats, "heartbeats")
    }

    /// For a claim, while the store works on it.
    pub(super) async fn turn(&self) -> Turn {
        // It is never closed.
        Turn { _place: self.turns.clone().acquire_owned().await.ok() }
    }
}

fn take<'p>(places: &'p Semaphore, what: &str) -> Answered<Taken<'p>> {
    let full = |_| {
        Problem::overloaded(format!("as many {what} are here as may; try again later, or ask another server"))
    };
    Ok(Taken { _place: places.try_acquire().map_err(full)? })
}
