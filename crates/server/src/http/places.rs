//! Places for requests that the guard does not count: claims and heartbeats, most of which wait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::StatusCode;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{Answered, Caller, Limits, Problem};

/// How many may be at it at once.
#[derive(Debug)]
pub(super) struct Places {
    claims: Semaphore,
    /// As many as claims: each worker has one of both.
    heartbeats: Semaphore,
    /// Claims that have the store look, or report. Those who find no place wait for one: they have one among
    /// claims.
    turns: Arc<Semaphore>,
    /// How many listen with each token, and how many may.
    listeners: Arc<Mutex<HashMap<String, usize>>>,
    most_listeners: usize,
}

/// A place of a listener to events.
#[must_use]
pub(super) struct ListenerPlace {
    listeners: Arc<Mutex<HashMap<String, usize>>>,
    token: Option<String>,
}

impl Drop for ListenerPlace {
    fn drop(&mut self) {
        let Some(token) = self.token.take() else { return };
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(many) = listeners.get_mut(&token) {
            *many -= 1;
            if *many == 0 {
                listeners.remove(&token);
            }
        }
    }
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
        Self {
            claims,
            heartbeats,
            turns: Semaphore::new(limits.requests).into(),
            listeners: Arc::default(),
            most_listeners: limits.listeners,
        }
    }

    /// For a listener to events, until it ends. Without tokens there is no bound but that of all listeners.
    pub(super) fn listener(&self, caller: &Caller) -> Answered<ListenerPlace> {
        let token = (!caller.is_anybody()).then(|| caller.name().to_owned());
        if let Some(token) = &token {
            let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
            let many = listeners.get(token).copied().unwrap_or(0);
            if many >= self.most_listeners {
                let detail = format!(
                    "{many} listen to events with the token {token:?} already, and no more may; close one, or raise --listeners-per-token"
                );
                return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_listeners", detail));
            }
            listeners.insert(token.clone(), many + 1);
        }
        Ok(ListenerPlace { listeners: self.listeners.clone(), token })
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
