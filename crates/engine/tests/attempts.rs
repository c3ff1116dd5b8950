//! How an attempt ends when the handler does not end it by itself: panics, time limits, operators, lost
//! leases.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::sync::{Arc, Mutex};

use support::{
    Fault, START, Work, at, engine, ms, pass, planned, record, secs, state, times, words, work, worker,
};
use tokio::time::Instant;
use windlass::{By, Context, Record, State, StopReason, TaskError, WorkerBuilder};

/// What handlers were told, by whom they are and when.
type Told = Arc<Mutex<Vec<(u32, StopReason, u64)>>>;

fn elapsed(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_millis()).unwrap()
}

/// A handler that takes as long as it is told, unless it is stopped, and notes why.
fn obedient(
    told: &Told,
) -> impl Fn(Context, Work) -> std::pin::Pin<Box<dyn Future<Output = Result<u32, TaskError>> + Send>> + use<>
{
    let (told, start) = (told.clone(), Instant::now());
    move |context, work| {
        let told = told.clone();
        Box::pin(async move {
            tokio::select! {
                reason = context.stopped() => {
                    assert_eq!(context.stop_reason(), Some(reason));
                    told.lock().unwrap().push((context.lease(), reason, elapsed(start)));
                }
                () = pass(ms(work.takes)) => {}
            }
            Ok(context.lease())
        })
    }
}

fn error(record: &Record) -> &str {
    record.task.status.error.as_deref().unwrap_or_default()
}

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("in the end");
        }
    }
}

/// What a worker makes of one attempt of one task. It must be able to do another afterwards.
async fn one_attempt(configure: impl FnOnce(WorkerBuilder) -> WorkerBuilder) -> Record {
    let windlass = engine();
    let client = windlass.client();
    let id = client.submit(&work("a", 0)).timeout(secs(2)).await.unwrap().id;
    let configured = configure(worker(&windlass)).pool(1);
    let worker = configured.handle_kind("next", async |_| Ok(7)).start().await.unwrap();
    let next = client.submit_json("next", "null").await.unwrap().id;
    assert_eq!(client.wait(next).await.unwrap().output::<u8>().unwrap(), 7, "the worker goes on");
    let record = record(&windlass, id).await;
    assert_eq!(record.task.status.attempt, 1);
    worker.stop().await.unwrap();
    record
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failed_attempt() {
    let in_poll = async |_: Context, work: Work| -> Result<(), TaskError> {
        tokio::task::yield_now().await;
        panic!("no {}", work.name)
    };
    let record = one_attempt(|worker| worker.handle(in_poll)).await;
    assert_eq!(
        (record.task.status.state, error(&record)),
        (State::WaitingForRetry, "the handler panicked: no a")
    );
    let before = |_: Context, _: Work| -> std::future::Ready<Result<(), TaskError>> { panic!("too early") };
    let record = one_attempt(|worker| worker.handle(before)).await;
    assert_eq!(error(&record), "the handler panicked: too early");
    let before = |_: Context| -> std::future::Ready<Result<serde_json::Value, TaskError>> { panic!("early") };
    let record = one_attempt(|worker| worker.handle_kind("work", before)).await;
    assert_eq!(error(&record), "the handler panicked: early");
    let wordless = async |_: Context, _: Work| -> Result<(), TaskError> { std::panic::panic_any(7) };
    let record = one_attempt(|worker| worker.handle(wordless)).await;
    assert_eq!(error(&record), "the handler panicked: without a message");
    let fine = async |_: Context, _: Work| Ok(());
    let around = async |context: Context, next: windlass::Next| {
        assert_ne!(&*context.task().spec.kind, "work", "around");
        next.run(context).await
    };
    let record = one_attempt(|worker| worker.handle(fine).around(around)).await;
    assert!(
        error(&record).contains("the handler panicked") && error(&record).contains("around"),
        "{}",
        error(&record)
    );
}

#[tokio::test(start_paused = true)]
async fn a_panic_while_the_handler_is_cleaned_up_is_a_failed_attempt() {
    let at_the_end = async |_: Context, _: Work| {
        let _bomb = Bomb;
        tokio::task::yield_now().await;
        Ok(())
    };
    let record = one_attempt(|worker| worker.handle(at_the_end)).await;
    assert_eq!(error(&record), "the handler panicked: in the end");
    assert_eq!(record.task.status.state, State::WaitingForRetry);
}

#[tokio::test(start_paused = true)]
async fn a_panic_while_a_late_handler_is_dropped_does_not_hide_why() {
    let dropped = async |_: Context, _: Work| {
        let _bomb = Bomb;
        std::future::pending::<Result<(), TaskError>>().await
    };
    let record = one_attempt(|worker| worker.handle(dropped)).await;
    assert!(
        error(&record).contains("timed out") || error(&record).contains("in the end"),
        "{}",
        error(&record)
    );
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_ignores_its_time_limit_is_dropped() {
    struct Dropped(Arc<Mutex<Option<u64>>>, Instant);
    impl Drop for Dropped {
        fn drop(&mut self) {
            *self.0.lock().unwrap() = Some(elapsed(self.1));
        }
    }
    let windlass = engine();
    let client = windlass.client();
    let gone: Arc<Mutex<Option<u64>>> = Arc::default();
    let (seen, start) = (gone.clone(), Instant::now());
    let handler = move |context: Context, _: Work| {
        let dropped = Dropped(gone.clone(), start);
        async move {
            let _dropped = dropped;
            if context.attempt() == 2 {
                return Ok(());
            }
            assert_eq!((context.time_left(), context.deadline()), (Some(secs(2)), Some(START.plus(secs(2)))));
            pass(ms(500)).await;
            assert_eq!(context.time_left(), Some(ms(1_500)));
            std::future::pending().await
        }
    };
    let worker = worker(&windlass).handle(handler).patience(secs(3)).start().await.unwrap();
    let id = client.submit(&work("a", 0)).timeout(secs(2)).await.unwrap().id;
    pass(ms(4_999)).await;
    assert_eq!(*seen.lock().unwrap(), None, "it has its patience");
    pass(ms(10)).await;
    assert_eq!(*seen.lock().unwrap(), Some(5_000));
    let failed = record(&windlass, id).await;
    assert_eq!((failed.task.status.state, error(&failed)), (State::WaitingForRetry, "timed out after 2s"));
    client.wait(id).await.unwrap();
    let done = record(&windlass, id).await;
    let expected =
        ["pending", "claimed", "running", "waiting_for_retry", "pending", "claimed", "running", "completed"];
    assert_eq!(words(&done), expected);
    assert_eq!(times(&done)[3..6], [secs(5), secs(6), secs(6)]);
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_ends_when_its_time_is_up_has_failed_all_the_same() {
    let (windlass, told) = (engine(), Told::default());
    let client = windlass.client();
    let worker = worker(&windlass).handle(obedient(&told)).start().await.unwrap();
    let late = client.submit(&work("late", 9_000)).timeout(secs(2)).max_attempts(1).await.unwrap().id;
    let just = client.submit(&work("just", 2_000)).timeout(secs(2)).await.unwrap().id;
    let late = client.wait(late).await.unwrap();
    assert_eq!((late.task.status.state, error(&late)), (State::DeadLetter, "timed out after 2s"));
    assert_eq!(late.task.status.finished_at, Some(at(secs(2))));
    assert_eq!(*told.lock().unwrap(), [(1, StopReason::TimedOut, 2_000)]);
    let state = state(&windlass, just).await;
    assert!(matches!(state, State::Completed | State::WaitingForRetry), "in time or not, it is told");
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_operators_cancel_reaches_the_handler_within_moments() {
    let (windlass, told) = (engine(), Told::default());
    let client = windlass.client();
    let worker = worker(&windlass).handle(obedient(&told)).start().await.unwrap();
    let id = client.submit(&work("a", 60_000)).await.unwrap().id;
    pass(ms(3_333)).await;
    client.cancel(id, By::default()).await.unwrap();
    pass(ms(200)).await;
    let told = told.lock().unwrap().clone();
    assert!(matches!(told[..], [(1, StopReason::Cancelled, 3_333..=3_500)]), "{told:?}");
    let record = record(&windlass, id).await;
    assert_eq!(words(&record), ["pending", "claimed", "running", "cancelled"]);
    assert_eq!(record.result, None, "what it returned after that does not matter");
    let next = client.submit(&work("b", 0)).await.unwrap().id;
    client.wait(next).await.unwrap();
    worker.stop().await.unwrap();
}

/// Cancels come in bursts, and heartbeats not more often than bearable.
#[tokio::test(start_paused = true)]
async fn many_cancels_are_told_with_few_heartbeats() {
    let (plan, windlass) = planned();
    let (client, told) = (windlass.client(), Told::default());
    let worker = worker(&windlass).handle(obedient(&told)).pool(100).start().await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..100 {
        ids.push(client.submit(&work("a", 60_000)).await.unwrap().id);
    }
    pass(secs(1)).await;
    plan.take_calls();
    for id in ids {
        client.cancel(id, By::default()).await.unwrap();
        pass(ms(5)).await;
    }
    pass(ms(200)).await;
    assert_eq!(told.lock().unwrap().len(), 100);
    assert!(plan.calls("heartbeat") <= 8, "{} heartbeats in 0.7 s", plan.calls("heartbeat"));
    worker.stop().await.unwrap();
}

/// The claim is made, the task cancelled, and only then does the worker hear of the claim.
#[tokio::test(start_paused = true)]
async fn a_cancel_is_not_missed_while_the_answer_to_a_claim_is_on_its_way() {
    let (plan, windlass) = planned();
    let (client, told) = (windlass.client(), Told::default());
    let worker = worker(&windlass).handle(obedient(&told)).start().await.unwrap();
    pass(ms(1)).await;
    plan.once("turn", Fault::Late(ms(500)));
    let id = client.submit(&work("a", 60_000)).await.unwrap().id;
    pass(ms(100)).await;
    assert_eq!(state(&windlass, id).await, State::Claimed);
    client.cancel(id, By::default()).await.unwrap();
    pass(secs(2)).await;
    let told = told.lock().unwrap().clone();
    assert!(matches!(told[..], [] | [(1, StopReason::Cancelled, _)]), "{told:?}");
    let stopping = Instant::now();
    worker.stop().await.unwrap();
    assert!(stopping.elapsed() < secs(1), "a handler still ran, and nobody had told it");
    assert_eq!(state(&windlass, id).await, State::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_taken_away_reaches_the_handler() {
    let (windlass, told) = (engine(), Told::default());
    let client = windlass.client();
    let first = worker(&windlass).handle(obedient(&told)).pool(1).start().await.unwrap();
    let id = client.submit(&work("a", 60_000)).await.unwrap().id;
    pass(secs(1)).await;
    // It has no room for another, so that the second gets it.
    let second = worker(&windlass).handle(obedient(&told)).pool(1).start().await.unwrap();
    client.retry(id, false, By::default()).await.unwrap();
    pass(ms(300)).await;
    let status = record(&windlass, id).await.task.status;
    assert_eq!((status.worker.as_ref(), status.lease, status.attempt), (Some(second.id()), 2, 2));
    let so_far = told.lock().unwrap().clone();
    assert!(matches!(so_far[..], [(1, StopReason::LeaseLost, 1_000..=1_200)]), "{so_far:?}");
    let output: u32 = client.wait(id).await.unwrap().output().unwrap();
    assert_eq!(output, 2, "the first one's output was not taken");
    first.stop().await.unwrap();
    second.stop().await.unwrap();
}

/// Started over by an operator, the task comes back to the worker whose handler still runs it.
#[tokio::test(start_paused = true)]
async fn a_worker_may_get_the_task_again_that_it_lost() {
    let (windlass, told) = (engine(), Told::default());
    let client = windlass.client();
    let worker = worker(&windlass).handle(obedient(&told)).pool(2).start().await.unwrap();
    let id = client.submit(&work("a", 60_000)).await.unwrap().id;
    pass(secs(1)).await;
    client.retry(id, false, By::default()).await.unwrap();
    pass(secs(1)).await;
    let so_far = told.lock().unwrap().clone();
    assert!(matches!(so_far[..], [(1, StopReason::LeaseLost, 1_000..=1_200)]), "{so_far:?}");
    let status = record(&windlass, id).await.task.status;
    assert_eq!((status.state, status.lease, status.started_at), (State::Running, 2, Some(at(secs(1)))));
    worker.stop().await.unwrap();
    let record = record(&windlass, id).await;
    let left = &record.task.status;
    assert!(left.state == State::Completed || left.attempt == 1, "{:?} {}", words(&record), left.attempt);
}

#[tokio::test(start_paused = true)]
async fn a_pool_is_kept_to_even_if_a_lease_was_lost() {
    let windlass = engine();
    let client = windlass.client();
    let running = Arc::new(Mutex::new((0_usize, 0_usize)));
    let seen = running.clone();
    let stubborn = move |_: Context, work: Work| {
        let running = running.clone();
        async move {
            {
                let mut running = running.lock().unwrap();
                running.0 += 1;
                running.1 = running.1.max(running.0);
            }
            pass(ms(work.takes)).await;
            running.lock().unwrap().0 -= 1;
            Ok::<_, TaskError>(())
        }
    };
    let worker = worker(&windlass).handle(stubborn).pool(2).start().await.unwrap();
    let id = client.submit(&work("a", 3_000)).await.unwrap().id;
    for _ in 0..4 {
        pass(ms(500)).await;
        client.retry(id, true, By::default()).await.unwrap();
    }
    client.submit(&work("b", 3_000)).await.unwrap();
    client.wait(id).await.unwrap();
    assert!(seen.lock().unwrap().1 <= 2, "{} handlers at once in a pool of 2", seen.lock().unwrap().1);
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_finish_with_a_lost_lease_changes_nothing() {
    let windlass = engine();
    let client = windlass.client();
    // It returns in the very moment in which it is told, and does not look why.
    let handler = async |_: Context, work: Work| {
        pass(ms(work.takes)).await;
        Ok("late")
    };
    let worker = worker(&windlass).handle(handler).pool(1).start().await.unwrap();
    let id = client.submit(&work("a", 1_000)).await.unwrap().id;
    pass(ms(999)).await;
    client.resolve(id, None, By::default()).await.unwrap();
    pass(secs(1)).await;
    let settled = record(&windlass, id).await;
    assert_eq!((settled.task.status.state, settled.result.clone()), (State::ResolvedManually, None));
    let next = client.submit(&work("b", 0)).await.unwrap().id;
    assert_eq!(client.wait(next).await.unwrap().output::<String>().unwrap(), "late", "the worker goes on");
    assert_eq!(record(&windlass, id).await, settled);
    worker.stop().await.unwrap();
}
