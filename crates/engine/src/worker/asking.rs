//! Questions to the store that are not answered yet.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use windlass_core::{Command, Lease, State, TaskId, limits};
use windlass_store::{Error, Filter, Page, Turned};

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
    pub(super) answer: Pin<Box<dyn Future<Output = Answer> + Send>>,
}

/// The first answer to what was asked, and which question it answers; never, if nothing was asked.
pub(super) async fn answered(asking: &mut [Asking]) -> (usize, Answer) {
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
