//! Spans and metrics, once for every store and once for every handler. Their names are in docs/metrics.md.

use std::collections::BTreeMap;

use async_trait::async_trait;
use tokio::time::Instant;
use tracing::{Instrument, debug, debug_span, info_span};
use windlass_core::{Name, Outcome, State};
use windlass_store::{Receipt, Result, Submitted, Turned, Wrap};

use crate::context::Context;
use crate::handler::Next;
use crate::worker::attempt::Verdict;

/// Retries after more attempts than this are counted as one, so that the number of metrics is bounded.
const MOST_ATTEMPTS: u32 = 10;

/// What is put around every store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observe;

#[async_trait]
impl Wrap for Observe {
    async fn call<T: Send>(
        &self,
        verb: &'static str,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let begun = Instant::now();
        let answer = call.instrument(debug_span!("store", verb)).await;
        if let Err(error) = &answer {
            debug!(verb, %error, "the store refused or failed");
            metrics::counter!("windlass_store_errors_total", "verb" => verb, "code" => error.code())
                .increment(1);
        }
        let seconds = begun.elapsed().as_secs_f64();
        metrics::histogram!("windlass_store_duration_seconds", "verb" => verb).record(seconds);
        if verb == "turn" {
            metrics::histogram!("windlass_claim_duration_seconds").record(seconds);
        }
        answer
    }

    fn submitted(&self, kinds: &[Name], answer: &[Submitted]) {
        let new = kinds.iter().zip(answer).filter(|(_, one)| one.created);
        for (kind, tasks) in tally(new.map(|(kind, _)| kind)) {
            metrics::counter!("windlass_tasks_enqueued_total", "kind" => kind.to_string()).increment(tasks);
        }
    }

    fn turned(&self, deletions: &[usize], answer: &Turned) {
        let kept = answer.receipts.iter().enumerate().filter(|(at, _)| !deletions.contains(at));
        let changed = kept.filter_map(|(_, receipt)| receipt.as_ref().ok()).filter(|one| one.changed);
        let sorts = changed.filter_map(|Receipt { kind, state, attempt, .. }| match state {
            State::WaitingForRetry => Some((kind, *state, (*attempt).min(MOST_ATTEMPTS))),
            state => state.is_final().then_some((kind, *state, 0)),
        });
        for ((kind, state, attempt), tasks) in tally(sorts) {
            let kind = || kind.to_string();
            if state == State::WaitingForRetry {
                let attempt = attempt.to_string();
                metrics::counter!("windlass_task_retries_total", "kind" => kind(), "attempt" => attempt)
                    .increment(tasks);
                continue;
            }
            metrics::counter!("windlass_tasks_completed_total", "kind" => kind(), "state" => state.word())
                .increment(tasks);
            if state == State::DeadLetter {
                metrics::counter!("windlass_tasks_dead_letter_total", "kind" => kind()).increment(tasks);
            }
        }
    }
}

/// How often each occurs.
fn tally<T: Ord>(all: impl Iterator<Item = T>) -> BTreeMap<T, u64> {
    let mut tally = BTreeMap::new();
    for one in all {
        *tally.entry(one).or_default() += 1;
    }
    tally
}

/// What is put around every handler.
pub(crate) async fn handler(context: Context, next: Next) -> Outcome {
    let kind = context.task().spec.kind.clone();
    let span = info_span!("task", id = %context.id(), kind = %kind, attempt = context.attempt(), lease = context.lease());
    next.run(context).instrument(span).await
}

/// How long an attempt took, whether it ended by itself, panicked or was dropped.
pub(crate) fn ended(kind: &Name, started: Instant, verdict: &Verdict) {
    let outcome = match verdict {
        Verdict::Finished(Outcome::Completed { .. }) => "completed",
        Verdict::Finished(Outcome::Failed { .. }) => "failed",
        Verdict::Finished(Outcome::Snoozed { .. }) => "snoozed",
        Verdict::Finished(Outcome::Cancelled { .. }) => "cancelled",
        Verdict::Finished(Outcome::Skipped { .. }) => "skipped",
        Verdict::Finished(Outcome::Expanded { .. }) => "expanded",
        Verdict::Interrupted(_) | Verdict::Nothing => "interrupted",
    };
    metrics::histogram!("windlass_task_duration_seconds", "kind" => kind.to_string(), "outcome" => outcome)
        .record(started.elapsed().as_secs_f64());
}
