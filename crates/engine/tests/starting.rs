//! When the start of a handler is recorded before it runs, and when that costs nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::sync::{Arc, Mutex};

use support::{Work, pass, record, secs, spied, words, work, worker};
use windlass::{Context, Reason, State, TaskError, Windlass};

/// The states in which handlers have found their tasks.
type Seen = Arc<Mutex<Vec<(u32, State)>>>;

/// A handler that looks at its task in the store, and fails at first.
fn looks(
    windlass: &Windlass,
    seen: &Seen,
) -> impl Fn(Context, Work) -> std::pin::Pin<Box<dyn Future<Output = Result<(), TaskError>> + Send>> + use<> {
    let (client, seen) = (windlass.client(), seen.clone());
    move |context, _| {
        let (client, seen) = (client.clone(), seen.clone());
        Box::pin(async move {
            let found = client.get(context.id()).await?.map(|record| record.task.status.state);
            seen.lock().unwrap().push((context.attempt(), found.unwrap()));
            if context.attempt() < 3 { Err(TaskError::retry("not yet")) } else { Ok(()) }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_attempt_of_several_costs_nothing_more_and_a_retry_is_recorded_first() {
    let ((spy, windlass), seen) = (spied(), Seen::default());
    let id = windlass.client().submit(&work("a", 0)).await.unwrap().id;
    let worker = worker(&windlass).handle(looks(&windlass, &seen)).start().await.unwrap();
    pass(secs(10)).await;
    let expected = [(1, State::Claimed), (2, State::Running), (3, State::Running)];
    assert_eq!(*seen.lock().unwrap(), expected);
    assert_eq!(spy.times("start"), 2);
    assert_eq!(words(&record(&windlass, id).await).last(), Some(&"completed"));
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_last_attempt_is_recorded_first() {
    let ((spy, windlass), seen) = (spied(), Seen::default());
    let id = windlass.client().submit(&work("a", 0)).max_attempts(1).await.unwrap().id;
    let worker = worker(&windlass).handle(looks(&windlass, &seen)).start().await.unwrap();
    pass(secs(10)).await;
    assert_eq!(*seen.lock().unwrap(), [(1, State::Running)]);
    assert_eq!(spy.times("start"), 1);
    let record = record(&windlass, id).await;
    assert_eq!(words(&record), ["pending", "claimed", "running", "dead_letter"]);
    assert_eq!(record.history[2].reason, Reason::Started);
    worker.stop().await.unwrap();
}

/// More of them than handlers: each has its turn, and none is started twice.
#[tokio::test(start_paused = true)]
async fn many_last_attempts_take_turns() {
    let ((spy, windlass), seen) = (spied(), Seen::default());
    for _ in 0..25 {
        windlass.client().submit(&work("a", 0)).max_attempts(1).await.unwrap();
    }
    let worker = worker(&windlass).handle(looks(&windlass, &seen)).pool(4).start().await.unwrap();
    pass(secs(10)).await;
    assert_eq!(*seen.lock().unwrap(), [(1, State::Running); 25]);
    assert_eq!(spy.times("start"), 25);
    worker.stop().await.unwrap();
}
