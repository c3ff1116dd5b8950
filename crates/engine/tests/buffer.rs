//! What a worker takes in advance: as much as quick handlers need, nothing for slow ones, and not for long.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use support::{
    Fault, engine, ms, pass, planned, quick_then_slow, record, secs, state, submit, take, words, work, worker,
};
use windlass::State;

#[tokio::test(start_paused = true)]
async fn what_was_taken_in_advance_is_given_back_if_no_handler_gets_free() {
    let (plan, windlass) = planned();
    let client = windlass.client();
    let slow = quick_then_slow(&plan, &client, 10, 20_000).await;
    let worker = worker(&windlass).handle(take).pool(4).leads(false).start().await.unwrap();
    pass(ms(900)).await;
    let mut waiting = Vec::new();
    for id in &slow {
        if state(&windlass, *id).await == State::Claimed {
            waiting.push(*id);
        }
    }
    assert!(!waiting.is_empty(), "nothing was taken in advance, so that this test shows nothing");
    pass(ms(300)).await;
    for id in waiting {
        let record = record(&windlass, id).await;
        assert_eq!(words(&record)[..3], ["pending", "claimed", "pending"]);
        assert_eq!(
            (record.task.status.attempt, record.task.status.lease),
            (0, 1),
            "the attempt is given back"
        );
        assert_eq!(record.history[2].note.as_deref(), Some("no handler was free"));
    }
    pass(secs(100)).await;
    for id in slow {
        let status = record(&windlass, id).await.task.status;
        assert_eq!((status.state, status.attempt), (State::Completed, 1));
    }
    worker.stop().await.unwrap();
}

/// What a slow worker takes in advance, an idle one cannot have.
#[tokio::test(start_paused = true)]
async fn slow_handlers_take_nothing_in_advance() {
    let windlass = engine();
    let client = windlass.client();
    let worker = worker(&windlass).handle(take).pool(1).start().await.unwrap();
    let ids = submit(&client, 4, &work("slow", 10_000)).await;
    pass(secs(45)).await;
    for id in ids {
        let record = record(&windlass, id).await;
        assert_eq!(words(&record), ["pending", "claimed", "running", "completed"]);
    }
    worker.stop().await.unwrap();
}

/// What was not measured yet is not taken for quick.
#[tokio::test(start_paused = true)]
async fn a_fresh_worker_claims_what_it_can_run() {
    for (pool, takes) in [(1, 10_000), (1, 300), (4, 10_000)] {
        let windlass = engine();
        let ids = submit(&windlass.client(), 60, &work("a", takes)).await;
        let worker = worker(&windlass).handle(take).pool(pool).start().await.unwrap();
        for _ in 0..5 {
            pass(ms(450)).await;
            let mut held = 0;
            for id in &ids {
                held += usize::from(state(&windlass, *id).await.is_held());
            }
            assert!((1..=pool).contains(&held), "{held} are held by {pool} handlers of {takes} ms");
        }
        worker.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_buffer_of_none_takes_nothing_in_advance() {
    let (plan, windlass) = planned();
    let client = windlass.client();
    plan.set(&["turn"], Fault::Late(ms(10)));
    submit(&client, 30, &work("quick", 1)).await;
    let slow = submit(&client, 2, &work("slow", 5_000)).await;
    let worker = worker(&windlass).handle(take).pool(1).buffer(0).start().await.unwrap();
    pass(secs(20)).await;
    for id in slow {
        assert_eq!(record(&windlass, id).await.task.status.lease, 1, "claimed once");
    }
    worker.stop().await.unwrap();
}
