//! One attempt: running a handler to its end, whatever that is.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::coop::unconstrained;
use tokio::time::{sleep_until, timeout};
use tracing::{Instrument, error, warn};
use windlass_core::{Lease, Outcome, Report, TaskId, Token};

use crate::client::Client;
use crate::context::{Attempt, Context};
use crate::error::TaskError;
use crate::handler::{Handlers, Running};
use crate::observe;
use crate::steps::{self, ClaimedStep, Prepared};
use crate::stop::StopReason;
use std::sync::Arc;

/// What there is to say to the store about an attempt that is over.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The handler decided.
    Finished(Outcome),
    /// It was interrupted; the task goes back, and the attempt with it.
    Interrupted(StopReason),
    /// Nothing: the task is somebody else's, or nobody's, by now.
    Nothing,
}

/// An attempt that is over.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) task: TaskId,
    pub(crate) lease: Lease,
    pub(crate) report: Option<Report>,
    pub(crate) verdict: Verdict,
}

/// Runs the handler for `context` to its end. A handler that was told to stop has `patience` to do so.
pub(crate) async fn run(handlers: Arc<Handlers>, context: Context, patience: Duration) -> Ended {
    let attempt = context.attempt_row();
    let span = observe::attempt(attempt);
    let verdict = verdict(&handlers, &context, patience).instrument(span.clone()).await;
    observe::ended(&span, &attempt.task.spec.kind, attempt.started, &verdict);
    let (task, lease) = (attempt.task.id, attempt.task.status.lease);
    Ended { task, lease, report: attempt.notebook.take(), verdict }
}

async fn verdict(handlers: &Arc<Handlers>, context: &Context, patience: Duration) -> Verdict {
    let attempt = context.attempt_row();
    if let Some(workflow) = attempt.task.spec.workflow {
        let (client, token, payload) = (&attempt.client, &attempt.token(), attempt.claimed_payload());
        let prepared = tokio::select! {
            biased;
            reason = attempt.stop.stopped() => return judge(attempt, reason, None),
            prepared = steps::prepare(ClaimedStep { client, workflow, token, payload, until: None }) => prepared,
        };
        match prepared {
            Prepared::Run(flow, payload) => attempt.enter(flow, payload),
            Prepared::Ended(outcome) => return Verdict::Finished(outcome),
            Prepared::Nested => return Verdict::Nothing,
        }
    }
    let Client { rules, .. } = &attempt.client;
    if let Err(invalid) = rules.check_run(&attempt.task, context.payload()) {
        return Verdict::Finished(TaskError::fail(invalid).outcome());
    }
    let mut handler = pin!(caught(handlers, context.clone()));
    let deadline = attempt.task.spec.timeout.map(|limit| attempt.begun() + limit);
    let out_of_time = async {
        match deadline {
            // A handler that always has something to do leaves no budget for a timer that is asked after it.
            Some(deadline) => unconstrained(sleep_until(deadline)).await,
            None => std::future::pending().await,
        }
    };
    // Immediately before the handler's first instruction: it may have taken long to come here.
    if !context.holds_lease() {
        return judge(attempt, attempt.stop.reason().unwrap_or(StopReason::Fenced), None);
    }
    let last_word = tokio::select! {
        biased;
        outcome = &mut handler => Some(outcome),
        _ = unconstrained(attempt.stop.stopped()) => timeout(patience, handler).await.ok(),
        () = out_of_time => {
            attempt.stop.tell(StopReason::TimedOut);
            timeout(patience, handler).await.ok()
        }
    };
    match (attempt.stop.reason(), last_word) {
        (None, Some(outcome)) => Verdict::Finished(outcome),
        (reason, last_word) => judge(attempt, reason.unwrap_or(StopReason::Shutdown), last_word),
    }
}

/// What becomes of an attempt that was told to stop. It may have ended by itself, then or in the meantime.
fn judge(attempt: &Attempt, reason: StopReason, last_word: Option<Outcome>) -> Verdict {
    match reason {
        StopReason::Cancelled | StopReason::LeaseLost => Verdict::Nothing,
        StopReason::TimedOut => {
            let limit = attempt.task.spec.timeout.unwrap_or_default();
            Verdict::Finished(TaskError::retry(format!("timed out after {limit:?}")).outcome())
        }
        // What failed because it was interrupted did not fail by itself.
        StopReason::Fenced | StopReason::Shutdown => match last_word {
            Some(Outcome::Failed { .. }) | None => Verdict::Interrupted(reason),
            Some(outcome) => Verdict::Finished(outcome),
        },
    }
}

/// Makes sure that the loop hears of the end of an attempt, even if the attempt is dropped in the middle.
pub(super) struct LastWord {
    end: mpsc::UnboundedSender<Ended>,
    token: Option<Token>,
}

impl LastWord {
    pub(super) fn new(end: mpsc::UnboundedSender<Ended>, token: &Token) -> Self {
        Self { end, token: Some(token.clone()) }
    }

    pub(super) fn say(mut self, ended: Ended) {
        self.token = None;
        // If nobody listens, the worker is gone, and the lease will expire.
        let _ = self.end.send(ended);
    }
}

impl Drop for LastWord {
    fn drop(&mut self) {
        if let Some(Token { task, lease, .. }) = self.token.take() {
            error!(%task, "a handler was dropped before its end");
            let outcome = TaskError::retry("the handler was dropped before its end").outcome();
            let verdict = Verdict::Finished(outcome);
            let _ = self.end.send(Ended { task, lease, report: None, verdict });
        }
    }
}

/// The handler, whose panic is an outcome like any other.
async fn caught(handlers: &Arc<Handlers>, context: Context) -> Outcome {
    let mut running = match catch_unwind(AssertUnwindSafe(|| handlers.run(context))) {
        Ok(running) => Guarded(Some(running)),
        Err(panic) => return panicked(&*panic),
    };
    std::future::poll_fn(move |cx| {
        let Some(running) = &mut running.0 else { return Poll::Pending };
        catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(cx)))
            .unwrap_or_else(|panic| Poll::Ready(panicked(&*panic)))
    })
    .await
}

/// A handler that may panic while it is dropped. By then it is decided how its attempt ended.
struct Guarded(Option<Running>);

impl Drop for Guarded {
    fn drop(&mut self) {
        if catch_unwind(AssertUnwindSafe(|| drop(self.0.take()))).is_err() {
            warn!("a handler panicked while it was dropped");
        }
    }
}

fn panicked(panic: &(dyn Any + Send)) -> Outcome {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    TaskError::retry(format!("the handler panicked: {}", text.unwrap_or("without a message"))).outcome()
}
