//! What the leader does from time to time: it forgets what is old, asks little of the store, and puts off
//! nothing that is due.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use support::{Fault, Work, engine, ms, pass, planned, record, secs, take, times, work, worker, zombie};
use windlass::{Command, Context, State, TaskError, TaskId, Windlass};

#[tokio::test(start_paused = true)]
async fn dead_workers_are_forgotten_after_an_hour() {
    let windlass = engine();
    windlass.client().submit(&work("a", 0)).await.unwrap();
    zombie(windlass.store(), secs(30), 1).await;
    let worker = worker(&windlass).handle(take).start().await.unwrap();
    let known = async || windlass.client().workers().await.unwrap().len();
    pass(secs(3_600)).await;
    assert_eq!(known().await, 2, "30 s until it is dead, and an hour");
    pass(secs(100)).await;
    assert_eq!(known().await, 1);
    assert_eq!(windlass.client().workers().await.unwrap()[0].id, *worker.id());
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_idle_engine_asks_little_of_its_store() {
    let (plan, windlass) = planned();
    let worker = worker(&windlass).handle(take).start().await.unwrap();
    pass(secs(60)).await;
    plan.take_calls();
    pass(secs(3_600)).await;
    let calls = plan.take_calls();
    for (verb, most) in [
        ("turn", 121),
        ("heartbeat", 361),
        ("campaign", 241),
        ("counts", 361),
        ("reconcile", 61),
        ("prune", 61),
        ("workers", 361),
        // Once for each time that the leader wakes up, and once for the moment of each gauge.
        ("due", 1_200),
    ] {
        let made = calls.get(verb).copied().unwrap_or(0);
        assert!(made <= most, "{made} calls of {verb} in an hour");
        assert!(made * 2 >= most.min(1_000), "{made} calls of {verb} in an hour: the bound shows nothing");
    }
    assert_eq!(calls.len(), 8, "{calls:?}");
    worker.stop().await.unwrap();
}

async fn finished(windlass: &Windlass, number: usize) -> Vec<TaskId> {
    let client = windlass.client();
    let mut ids = Vec::new();
    for _ in 0..number.div_ceil(500) {
        let batch = (0..500).map(|_| client.submit(&work("a", 0)).build().unwrap()).collect();
        ids.extend(client.submit_all(batch).await.unwrap().iter().map(|one| one.id));
    }
    for batch in ids.chunks(500) {
        let cancel = |id: &TaskId| Command::Cancel { task: *id, by: windlass::By::default() };
        windlass.store().apply(batch.iter().map(cancel).collect()).await.unwrap();
    }
    ids
}

#[tokio::test(start_paused = true)]
async fn what_retention_does_not_keep_is_deleted() {
    let windlass = engine();
    let client = windlass.client();
    let keep = windlass::Retention::default().keep(State::Completed, secs(600)).unwrap();
    let handler = async |_: Context, work: Work| match &*work.name {
        "fail" => Err(TaskError::fail("f")),
        _ => Ok(()),
    };
    let worker = worker(&windlass).handle(handler).retention(keep).start().await.unwrap();
    let done = client.submit(&work("done", 0)).key("k").await.unwrap().id;
    let failed = client.submit(&work("fail", 0)).await.unwrap().id;
    pass(secs(599)).await;
    assert!(client.get(done).await.unwrap().is_some());
    pass(secs(62)).await;
    assert_eq!(client.get(done).await.unwrap(), None);
    assert_eq!(client.find("work", "k").await.unwrap(), None, "its key is free");
    assert!(client.get(failed).await.unwrap().is_some(), "what is not named is kept");
    worker.stop().await.unwrap();
}

/// Deleting takes time, a page after the other. What is due does not wait for all of them.
#[tokio::test(start_paused = true)]
async fn deleting_much_puts_off_nothing_that_is_due() {
    let (plan, windlass) = planned();
    let client = windlass.client();
    finished(&windlass, 2_500).await;
    let keep = windlass::Retention::default().keep(State::Cancelled, secs(1)).unwrap();
    pass(secs(2)).await;
    plan.set(&["prune"], Fault::Late(secs(1)));
    let worker = worker(&windlass).handle(take).retention(keep).start().await.unwrap();
    let id = client.submit(&work("a", 0)).delay(ms(500)).await.unwrap().id;
    pass(secs(700)).await;
    assert_eq!(client.stats().await.unwrap().len(), 1, "all of them are gone");
    let late = times(&record(&windlass, id).await)[1] - ms(2_500);
    assert!(late <= secs(2), "{late:?} late");
    worker.stop().await.unwrap();
}
