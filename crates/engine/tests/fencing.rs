//! A worker whose heartbeats do not arrive: what it may still start, what it logs, and how long it takes to
//! stop.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use support::{
    Fault, Work, claim_meets, down, ms, pass, planned, planned_and_sure, secs, take, work, worker,
};
use tokio::time::Instant;
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context as Layered, Layer, SubscriberExt};
use windlass::{Context, State, TaskError};

/// How often a handler was started.
#[derive(Clone, Default)]
struct Starts(Arc<AtomicUsize>);

impl Starts {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn handler(&self) -> impl Fn(Context, Work) -> std::future::Ready<Result<(), TaskError>> + use<> {
        let starts = self.0.clone();
        move |_, _| {
            starts.fetch_add(1, Ordering::Relaxed);
            std::future::ready(Ok(()))
        }
    }
}

/// 24 s after the last heartbeat that was confirmed, others may soon take what this worker holds.
#[tokio::test(start_paused = true)]
async fn nothing_is_started_when_the_last_heartbeat_is_too_old() {
    let ((plan, windlass), starts) = (planned(), Starts::default());
    let (client, worker) = (windlass.client(), worker(&windlass).handle(starts.handler()));
    let worker = worker.start().await.unwrap();
    plan.set(&["heartbeat"], down());
    pass(secs(25)).await;
    let id = client.submit(&work("a", 0)).await.unwrap().id;
    pass(secs(3)).await;
    assert_eq!(starts.count(), 0);
    plan.mend();
    pass(secs(3)).await;
    let done = client.get(id).await.unwrap().unwrap().task.status;
    assert_eq!((done.state, done.attempt, starts.count()), (State::Completed, 1, 1));
    worker.stop().await.unwrap();
}

/// The answer to a claim comes when another has done the task, and after a heartbeat which could not speak
/// for that claim. So it is when a process is stopped between the two.
#[tokio::test(start_paused = true)]
async fn a_claim_from_before_a_silence_is_not_started() {
    let ((plan, windlass, sure), starts) = (planned_and_sure(), Starts::default());
    let first = worker(&windlass).handle(starts.handler()).start().await.unwrap();
    let id = claim_meets(&plan, &sure.client(), Fault::Late(secs(60))).await;
    plan.set(&["heartbeat"], down());
    let second = worker(&sure).handle(take).start().await.unwrap();
    pass(secs(45)).await;
    assert_eq!(sure.client().get(id).await.unwrap().unwrap().task.status.state, State::Completed);
    plan.mend();
    pass(secs(30)).await;
    assert_eq!(starts.count(), 0, "it was started although another had completed it");
    second.stop().await.unwrap();
    let next = sure.client().submit(&work("b", 0)).await.unwrap().id;
    pass(secs(1)).await;
    assert_eq!(sure.client().get(next).await.unwrap().unwrap().task.status.state, State::Completed);
    assert_eq!(starts.count(), 1, "it goes on working");
    first.stop().await.unwrap();
}

/// Collects the messages of warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Visit for Warnings {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0.lock().unwrap().push(format!("{value:?}"));
        }
    }
}

impl<S: tracing::Subscriber> Layer<S> for Warnings {
    fn on_event(&self, event: &tracing::Event<'_>, _: Layered<'_, S>) {
        if *event.metadata().level() <= tracing::Level::WARN {
            event.record(&mut self.clone());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_is_warned_of_once() {
    let warnings = Warnings::default();
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(warnings.clone()));
    let (plan, windlass) = planned();
    let worker = worker(&windlass).handle(take).start().await.unwrap();
    windlass.client().submit(&work("a", 50_000)).await.unwrap();
    pass(secs(1)).await;
    for round in 1..=2 {
        warnings.0.lock().unwrap().clear();
        plan.set(&[], down());
        pass(secs(600)).await;
        let told = warnings.0.lock().unwrap().clone();
        assert!((1..=4).contains(&told.len()), "round {round}: {} warnings: {told:#?}", told.len());
        plan.mend();
        pass(secs(60)).await;
    }
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_worker_stops_within_its_grace_period_although_the_store_is_away() {
    let (plan, windlass) = planned();
    let worker = worker(&windlass).handle(take).start().await.unwrap();
    windlass.client().submit(&work("a", 500)).await.unwrap();
    pass(ms(100)).await;
    plan.set(&[], down());
    pass(secs(1)).await;
    let begun = Instant::now();
    worker.stop().await.unwrap();
    let took = begun.elapsed();
    assert!(took <= secs(31), "it took {took:?}, and the grace period is 30 s");
    assert!(took >= secs(10), "it tried for {took:?} only");
}
