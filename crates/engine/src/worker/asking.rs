//! Questions to the store that are not answered yet.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use windlass_core::{Command, Lease, State, TaskId, limits};
use windlass_store::{Error, Filter, Page, Turned};

use super::driver::LAST_WORDS;
use super::setup::Shared;

/// What the store was asked.
pub(super) enum Asked {
    /// To take note of these, and whether to give more, and how much; and when, by the clock of the fence.
    Turn { commands: Vec<Command>, limit: usize, at: Duration },
    /// What this worker holds.
    Holdings,
}

/// What it answered.
pub(super) enum Answer {
    Turned(Result<Turned, Error>),
    Holdings(Result<Vec<(TaskId, Lease)>, Error>),
}

/// A question that is not answered yet.
pub(super) struct Asking {
    pub(super) asked: Asked,
    since: Instant,
    answer: Pin<Box<dyn Future<Output = Answer> + Send>>,
}

impl Asking {
    pub(super) fn new(asked: Asked, answer: impl Future<Output = Answer> + Send + 'static) -> Self {
        Self { asked, since: Instant::now(), answer: Box::pin(answer) }
    }

    /// When a worker that has been stopping since `stopping` no longer waits for the answer. A claim that may
    /// have succeeded is given up sooner than a report: the worker can ask what it holds.
    pub(super) fn abandon_at(&self, stopping: Instant) -> Instant {
        let reports = matches!(&self.asked, Asked::Turn { commands, .. } if !commands.is_empty());
        self.since.max(stopping) + if reports { LAST_WORDS } else { LAST_WORDS / 2 }
    }

    /// The answer of a question that is not waited for any longer.
    pub(super) fn abandoned(&self) -> Answer {
        let error = || Error::Unknown("the worker is stopping and there was no answer".into());
        match self.asked {
            Asked::Turn { .. } => Answer::Turned(Err(error())),
            Asked::Holdings => Answer::Holdings(Err(error())),
        }
    }
}

/// The first answer to what was asked, and which question it answers; never, if nothing was asked. With
/// `stopping`, the moment since which the worker has been stopping, a question that takes too long is
/// answered by [`Asking::abandoned`].
pub(super) async fn answered(asking: &mut [Asking], stopping: Option<Instant>) -> (usize, Answer) {
    let abandoned = stopping.and_then(|stopping| {
        let all = asking.iter().enumerate();
        all.map(|(at, one)| (one.abandon_at(stopping), (at, one.abandoned())))
            .min_by_key(|(moment, _)| *moment)
    });
    match abandoned {
        None => first_answer(asking).await,
        Some((moment, abandoned)) => timeout_at(moment, first_answer(asking)).await.unwrap_or(abandoned),
    }
}

async fn first_answer(asking: &mut [Asking]) -> (usize, Answer) {
    poll_fn(|context| {
        for (at, asking) in asking.iter_mut().enumerate() {
            if let Poll::Ready(answer) = asking.answer.as_mut().poll(context) {
                return Poll::Ready((at, answer));
            }
        }
        Poll::Pending
    })
    .await
}

/// All claims that the store counts as this worker's.
pub(super) async fn holdings(shared: &Shared) -> Result<Vec<(TaskId, Lease)>, Error> {
    let states = vec![State::Claimed, State::Running];
    let filter = Filter { states, worker: Some(shared.setup.id.clone()), ..Filter::default() };
    let (mut page, mut held) = (Page { limit: limits::PAGE, ..Page::default() }, Vec::new());
    loop {
        let listing = shared.store().tasks(filter.clone(), page).await?;
        held.extend(listing.tasks.iter().map(|task| (task.id, task.status.lease)));
        page.after = listing.next;
        if page.after.is_none() {
            return Ok(held);
        }
    }
}
