//! How a worker stops: no more claims, handlers end or are interrupted, everything is told, and nothing waits
//! for ever.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::sync::{Arc, Mutex};

use support::{
    Fault, Work, at, bounded, claim_meets, down, engine, lost, ms, pass, planned, quick_then_slow, record,
    secs, spied, state, take, times, words, work, worker,
};
use tokio::sync::oneshot;
use tokio::time::Instant;
use windlass::{Context, Error, State, StopReason, TaskError};

#[tokio::test(start_paused = true)]
async fn everything_is_done_in_its_order() {
    let (spy, windlass) = spied();
    let client = windlass.client();
    let worker = worker(&windlass).handle(take).pool(2).grace(secs(40)).start().await.unwrap();
    let soon = client.submit(&work("soon", 15_000)).await.unwrap().id;
    let never = client.submit(&work("never", 900_000)).await.unwrap().id;
    let later = client.submit(&work("later", 0)).await.unwrap().id;
    pass(secs(5)).await;
    spy.forget();
    let (begun, stopping) = (Instant::now(), worker.stop());
    stopping.await.unwrap();
    assert_eq!(begun.elapsed(), secs(45), "40 s of grace, 5 s of patience");
    let said = spy.said();
    let first = |word: &str| said.iter().position(|one| one == word).expect(word);
    assert_eq!(spy.times("claim"), 0, "{said:?}");
    assert!(first("finish") < first("release"), "{said:?}");
    assert!(first("release") < first("resign"), "{said:?}");
    assert!(first("resign") < first("deregister"), "{said:?}");
    assert_eq!(said.len() - 1, first("deregister"), "{said:?}");
    assert!(spy.times("heartbeat") >= 4, "its leases are alive to the end: {said:?}");

    assert_eq!(record(&windlass, soon).await.task.status.finished_at, Some(at(secs(15))));
    let released = record(&windlass, never).await;
    assert_eq!(words(&released), ["pending", "claimed", "running", "pending"]);
    assert_eq!(released.task.status.attempt, 0, "the attempt is given back");
    assert_eq!(released.history[3].note.as_deref(), Some("the handler was stopped: Shutdown"));
    assert_eq!(times(&released)[3], secs(50));
    assert_eq!(record(&windlass, later).await.history.len(), 1, "it was never touched");
    assert_eq!(client.workers().await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn handlers_are_told_when_the_grace_is_over() {
    let windlass = engine();
    let client = windlass.client();
    let told: Arc<Mutex<Vec<(String, StopReason)>>> = Arc::default();
    let seen = told.clone();
    let handler = move |context: Context, work: Work| {
        let told = told.clone();
        async move {
            let reason = context.stopped().await;
            told.lock().unwrap().push((work.name.clone(), reason));
            match &*work.name {
                "done" => Ok(()),
                "snooze" => Err(TaskError::snooze(secs(60))),
                "cancel" => Err(TaskError::cancel("c")),
                "fail" => Err(TaskError::fail("interrupted")),
                _ => std::future::pending().await,
            }
        }
    };
    let worker = worker(&windlass).handle(handler).grace(secs(7)).patience(secs(2)).start().await.unwrap();
    let mut ids = Vec::new();
    for name in ["done", "snooze", "cancel", "fail", "deaf"] {
        ids.push(client.submit(&work(name, 0)).await.unwrap().id);
    }
    pass(secs(1)).await;
    worker.stop().await.unwrap();
    let seen = seen.lock().unwrap().clone();
    assert!(seen.len() == 5 && seen.iter().all(|(_, reason)| *reason == StopReason::Shutdown), "{seen:?}");
    let expected = [State::Completed, State::Scheduled, State::Cancelled, State::Pending, State::Pending];
    for (id, expected) in ids.into_iter().zip(expected) {
        let record = record(&windlass, id).await;
        assert_eq!(record.task.status.state, expected);
        let ended =
            if record.history[3].note.is_some() && expected == State::Pending { 8..=10 } else { 8..=8 };
        assert!(ended.contains(&times(&record)[3].as_secs()), "{:?}", times(&record));
        // What failed because it was interrupted did not fail by itself.
        assert_eq!(record.task.status.attempt, u32::from(expected.is_final()));
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_given_back_is_run_by_another() {
    let windlass = engine();
    let client = windlass.client();
    let first = worker(&windlass).handle(take).grace(ms(0)).patience(ms(0)).start().await.unwrap();
    let id = client.submit(&work("a", 5_000)).max_attempts(1).await.unwrap().id;
    pass(secs(1)).await;
    let second = worker(&windlass).handle(take).start().await.unwrap();
    first.stop().await.unwrap();
    let done = client.wait(id).await.unwrap();
    assert_eq!(done.task.status.worker.as_ref(), Some(second.id()));
    assert_eq!((done.task.status.attempt, done.task.status.lease), (1, 2), "its only attempt was given back");
    second.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_a_handler_is_given_back_at_once() {
    let (plan, windlass) = planned();
    let client = windlass.client();
    let slow = quick_then_slow(&plan, &client, 12, 8_000).await;
    let worker = worker(&windlass).handle(take).pool(4).start().await.unwrap();
    pass(ms(200)).await;
    let mut claimed = 0;
    for id in &slow {
        claimed += usize::from(record(&windlass, *id).await.task.status.lease > 0);
    }
    assert!(claimed > 4, "nothing was taken in advance, so that this test shows nothing");
    let stop = async {
        pass(ms(100)).await;
        let (mut held, mut back) = (0, 0);
        for id in &slow {
            let status = record(&windlass, *id).await.task.status;
            held += usize::from(status.state.is_held());
            back += usize::from(status.state == State::Pending && status.lease == 1 && status.attempt == 0);
        }
        assert_eq!((held, back), (4, claimed - 4));
    };
    let (stopped, ()) = tokio::join!(worker.stop(), stop);
    stopped.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_a_last_claim_brings_is_given_back() {
    let (plan, windlass) = planned();
    let worker = worker(&windlass).handle(take).start().await.unwrap();
    let id = claim_meets(&plan, &windlass.client(), Fault::Late(ms(500))).await;
    pass(ms(1)).await;
    worker.stop().await.unwrap();
    let record = record(&windlass, id).await;
    assert_eq!(words(&record), ["pending", "claimed", "pending"]);
    assert_eq!(record.task.status.attempt, 0);
}

/// The claim was made, but the worker does not know; it knows that it does not know.
#[tokio::test(start_paused = true)]
async fn what_a_lost_answer_may_have_brought_is_given_back() {
    let (plan, windlass) = planned();
    let worker = worker(&windlass).handle(take).start().await.unwrap();
    let id = claim_meets(&plan, &windlass.client(), lost()).await;
    pass(ms(1)).await;
    worker.stop().await.unwrap();
    let status = record(&windlass, id).await.task.status;
    assert_eq!((status.state, status.attempt), (State::Pending, 0));
}

#[tokio::test(start_paused = true)]
async fn stopping_twice_is_stopping_once() {
    let (spy, windlass) = spied();
    let client = windlass.client();
    let worker = worker(&windlass).handle(take).start().await.unwrap();
    let id = client.submit(&work("a", 3_000)).await.unwrap().id;
    pass(secs(1)).await;
    let (one, other, ended) = tokio::join!(worker.stop(), worker.stop(), worker.ended());
    one.unwrap();
    other.unwrap();
    ended.unwrap();
    worker.stop().await.unwrap();
    assert_eq!(state(&windlass, id).await, State::Completed);
    assert_eq!(spy.times("deregister"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_idle_worker_stops_at_once() {
    let windlass = engine();
    let worker = worker(&windlass).handle(take).start().await.unwrap();
    pass(secs(1)).await;
    let begun = Instant::now();
    worker.stop().await.unwrap();
    assert!(begun.elapsed() < ms(20), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_dropped_stops_gracefully() {
    let windlass = engine();
    let client = windlass.client();
    let worker = worker(&windlass).handle(take).start().await.unwrap();
    let id = client.submit(&work("a", 3_000)).await.unwrap().id;
    pass(secs(1)).await;
    drop(worker);
    let next = client.submit(&work("b", 0)).await.unwrap().id;
    client.wait(id).await.unwrap();
    pass(secs(1)).await;
    assert_eq!(state(&windlass, next).await, State::Pending, "it claims no more");
    assert_eq!(client.workers().await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_worker_runs_until_it_is_told() {
    let windlass = engine();
    let client = windlass.client();
    let (tell, told) = oneshot::channel::<()>();
    let running = tokio::spawn(worker(&windlass).handle(take).run_until(async { told.await.unwrap() }));
    let id = client.submit(&work("a", 3_000)).await.unwrap().id;
    pass(secs(1)).await;
    tell.send(()).unwrap();
    running.await.unwrap().unwrap();
    assert_eq!(state(&windlass, id).await, State::Completed, "gracefully");
    assert_eq!(client.workers().await.unwrap(), []);

    let running = tokio::spawn(worker(&windlass).handle(take).run_until(std::future::pending()));
    pass(secs(1)).await;
    windlass.close().await.unwrap();
    assert_eq!(running.await.unwrap(), Err(Error::Closed));
    let refused = worker(&windlass).handle(take).run_until(std::future::pending()).await;
    assert_eq!(refused, Err(Error::Closed));
}

/// How long a worker with a running handler takes to stop if every call meets `fault`.
fn time_to_stop(fault: Fault, from_the_start: bool) -> std::time::Duration {
    bounded(async move {
        let (plan, windlass) = planned();
        let worker = worker(&windlass).handle(take).grace(secs(10)).start().await.unwrap();
        windlass.client().submit(&work("a", 4_000)).await.unwrap();
        pass(secs(1)).await;
        if !from_the_start {
            let stopping = Instant::now();
            tokio::join!(async { worker.stop().await.unwrap() }, async {
                pass(secs(1)).await;
                plan.set(&[], fault);
            });
            return stopping.elapsed();
        }
        plan.set(&[], fault);
        pass(secs(1)).await;
        let stopping = Instant::now();
        // Whether that is an error or not: it has ended.
        let _ = worker.stop().await;
        stopping.elapsed()
    })
}

/// 10 s of grace, 5 s of patience, 10 s for the last words, and as long as one more heartbeat may take to be
/// given up.
#[test]
fn a_worker_stops_although_the_store_is_down() {
    for from_the_start in [true, false] {
        let took = time_to_stop(down(), from_the_start);
        assert!(took <= secs(40), "{took:?}");
    }
}

#[test]
fn a_worker_stops_although_the_store_does_not_answer() {
    for from_the_start in [true, false] {
        let took = time_to_stop(Fault::Silence, from_the_start);
        assert!(took <= secs(60), "{took:?}");
    }
}
