//! Spans and metrics, once for every store, once for every attempt and once for what is submitted. Their
//! names are in docs/metrics.md.

use std::collections::BTreeMap;

use async_trait::async_trait;
use tokio::time::Instant;
use tracing::field::Empty;
use tracing::{Instrument, Span, debug, debug_span, info_span};
use windlass_core::{Command, Firing, Name, NewTask, NewWorkflow, Outcome, Source, State, Task, Term};
use windlass_store::{Receipt, Result, Store, Submitted, Turn, Turned, Wrap};

use crate::context::Attempt;
use crate::kinds::label;
use crate::trace;
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

    async fn submit(&self, inner: &dyn Store, tasks: Vec<NewTask>) -> Result<Vec<Submitted>> {
        let kinds = kinds_of(&tasks);
        inner.submit(tasks).await.inspect(|answer| count_submitted(&kinds, answer))
    }

    async fn fire(&self, inner: &dyn Store, firing: Firing, term: Option<Term>) -> Result<Vec<Submitted>> {
        let kinds = kinds_of(&firing.tasks);
        inner.fire(firing, term).await.inspect(|answer| count_submitted(&kinds, answer))
    }

    async fn turn(&self, inner: &dyn Store, turn: Turn) -> Result<Turned> {
        let commands = turn.commands.iter().enumerate();
        let deletions = commands.filter(|(_, command)| matches!(command, Command::Delete { .. }));
        let deletions: Vec<usize> = deletions.map(|(at, _)| at).collect();
        let failures = turn.commands.iter().enumerate().filter(|(_, command)| {
            matches!(command, Command::Finish { outcome: Outcome::Failed { .. }, .. })
        });
        let failures: Vec<usize> = failures.map(|(at, _)| at).collect();
        inner.turn(turn).await.inspect(|answer| count_ended(&deletions, &failures, answer))
    }
}

fn kinds_of(tasks: &[NewTask]) -> Vec<Name> {
    tasks.iter().map(|task| task.kind.clone()).collect()
}

/// Counts what was created. `kinds` are those of the tasks that were submitted.
fn count_submitted(kinds: &[Name], answer: &[Submitted]) {
    let new = kinds.iter().zip(answer).filter(|(_, one)| one.created);
    for (kind, tasks) in tally(new.map(|(kind, _)| label(kind))) {
        metrics::counter!("windlass_tasks_enqueued_total", "kind" => kind.to_string()).increment(tasks);
    }
}

/// Counts what has ended or is to be tried again. The receipts at `deletions` are of tasks that are deleted,
/// and say what they were; those at `failures` are of attempts that have failed.
fn count_ended(deletions: &[usize], failures: &[usize], answer: &Turned) {
    let kept = answer.receipts.iter().enumerate().filter(|(at, _)| !deletions.contains(at));
    let changed =
        kept.filter_map(|(at, receipt)| Some((at, receipt.as_ref().ok().filter(|one| one.changed)?)));
    let sorts = changed.filter_map(|(at, Receipt { kind, state, attempt, .. })| match state {
        state if state.is_final() => Some((label(kind), *state, 0)),
        _ if failures.contains(&at) => {
            Some((label(kind), State::WaitingForRetry, (*attempt).min(MOST_ATTEMPTS)))
        }
        _ => None,
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

/// How often each occurs.
fn tally<T: Ord>(all: impl Iterator<Item = T>) -> BTreeMap<T, u64> {
    let mut tally = BTreeMap::new();
    for one in all {
        *tally.entry(one).or_default() += 1;
    }
    tally
}

/// The span of a submit. Only a tracer has a use for it.
pub(crate) fn submitting(tasks: &[NewTask]) -> Span {
    if !trace::is_on() {
        return Span::none();
    }
    let mut kinds = tasks.iter().map(|task| &task.kind);
    let kind = kinds.next().filter(|first| kinds.all(|kind| kind == *first));
    let name = kind.map_or_else(|| "submit".into(), |kind| format!("submit {kind}"));
    info_span!("submit", otel.name = name, otel.kind = "producer", tasks = tasks.len())
}

/// The span of the start of a workflow. Only a tracer has a use for it.
pub(crate) fn starting(new: &NewWorkflow) -> Span {
    if !trace::is_on() {
        return Span::none();
    }
    let name = match &new.source {
        Source::Named { name, .. } => name,
        Source::AdHoc(definition) => &definition.name,
    };
    info_span!("start", otel.name = format!("start {name}"), otel.kind = "producer", workflow = %new.id)
}

/// The span of an attempt, which is part of what its task is part of.
pub(crate) fn attempt(attempt: &Attempt) -> Span {
    let Task { id, spec, status } = &attempt.task;
    let span = info_span!(
        "task",
        %id,
        kind = %spec.kind,
        attempt = status.attempt,
        lease = status.lease,
        // Lines of log do without these.
        queue = Empty,
        outcome = Empty,
        otel.name = Empty,
        otel.kind = Empty,
        otel.status_code = Empty,
    );
    if trace::is_on() {
        trace::follow(&span, spec.traceparent);
        span.record("queue", &*spec.queue);
        span.record("otel.name", format!("run {}", spec.kind));
        span.record("otel.kind", "consumer");
        if let Some(own) = trace::identify(&span) {
            // A second time it is the same.
            let _ = attempt.trace.set(own);
        }
    }
    span
}

/// How long an attempt took, whether it ended by itself, panicked or was dropped.
pub(crate) fn ended(span: &Span, kind: &Name, started: Instant, verdict: &Verdict) {
    let outcome = match verdict {
        Verdict::Finished(Outcome::Completed { .. }) => "completed",
        Verdict::Finished(Outcome::Failed { .. }) => "failed",
        Verdict::Finished(Outcome::Snoozed { .. }) => "snoozed",
        Verdict::Finished(Outcome::Cancelled { .. }) => "cancelled",
        Verdict::Finished(Outcome::Skipped { .. }) => "skipped",
        Verdict::Finished(Outcome::Expanded { .. }) => "expanded",
        Verdict::Interrupted(_) | Verdict::Nothing => "interrupted",
    };
    if trace::is_on() {
        span.record("outcome", outcome);
        if outcome == "failed" {
            span.record("otel.status_code", "ERROR");
        }
    }
    metrics::histogram!("windlass_task_duration_seconds", "kind" => label(kind).to_string(), "outcome" => outcome)
        .record(started.elapsed().as_secs_f64());
}

/// A number for a gauge.
pub(crate) fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::INFINITY, f64::from)
}
