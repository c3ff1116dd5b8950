//! Losing the store stops nothing: the worker backs off, comes back, and nothing is lost or done twice.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use support::{
    Fault, Plan, Work, at, bounded, claim_meets, down, engine, lost, ms, pass, planned, planned_and_sure,
    record, secs, state, submit, times, unsent, words, work, worker,
};
use tokio::time::Instant;
use windlass::{Context, Error, RunningWorker, State, StopReason, TaskError, TaskId, Windlass};

/// How often each task was begun.
#[derive(Clone, Default)]
struct Runs(Arc<Mutex<BTreeMap<TaskId, usize>>>);

impl Runs {
    fn handler(
        &self,
    ) -> impl Fn(Context, Work) -> std::pin::Pin<Box<dyn Future<Output = Result<(), TaskError>> + Send>> + use<>
    {
        let runs = self.0.clone();
        move |context, work| {
            *runs.lock().unwrap().entry(context.id()).or_default() += 1;
            Box::pin(async move {
                tokio::select! {
                    () = pass(ms(work.takes)) => Ok(()),
                    reason = context.stopped() => Err(TaskError::retry(format!("{reason:?}"))),
                }
            })
        }
    }

    fn of(&self, id: TaskId) -> usize {
        self.0.lock().unwrap().get(&id).copied().unwrap_or(0)
    }
}

/// A store that may fail, an engine on it, and a worker that counts what it begins.
async fn at_work() -> (Plan, Windlass, Runs, RunningWorker) {
    let ((plan, windlass), runs) = (planned(), Runs::default());
    let worker = worker(&windlass).handle(runs.handler()).start().await.unwrap();
    (plan, windlass, runs, worker)
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_down_for_a_while_loses_and_doubles_nothing() {
    for (how, fault) in [("down", down()), ("unsent", unsent())] {
        let ((plan, windlass, sure), runs) = (planned_and_sure(), Runs::default());
        let worker = worker(&windlass).handle(runs.handler()).pool(5).start().await.unwrap();
        let sure = sure.client();
        let mut ids = submit(&sure, 20, &work("a", 700)).await;
        pass(ms(1_000)).await;
        plan.set(&[], fault);
        ids.extend(submit(&sure, 20, &work("a", 700)).await);
        pass(secs(15)).await;
        plan.mend();
        pass(secs(20)).await;
        for id in ids {
            let status = sure.get(id).await.unwrap().unwrap().task.status;
            assert_eq!((status.state, status.attempt, runs.of(id)), (State::Completed, 1, 1), "{how}");
        }
        worker.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_lost_for_a_while_lose_and_double_nothing() {
    let ((plan, windlass, sure), runs) = (planned_and_sure(), Runs::default());
    let worker = worker(&windlass).handle(runs.handler()).pool(5).start().await.unwrap();
    let sure = sure.client();
    let mut ids = submit(&sure, 20, &work("a", 700)).await;
    for _ in 0..10 {
        pass(ms(350)).await;
        plan.once("turn", lost());
        ids.extend(submit(&sure, 3, &work("a", 700)).await);
    }
    pass(secs(60)).await;
    for id in ids {
        let record = sure.get(id).await.unwrap().unwrap();
        let status = &record.task.status;
        assert_eq!((status.state, status.attempt), (State::Completed, 1), "{:?}", words(&record));
        assert_eq!(runs.of(id), 1, "{:?}", words(&record));
    }
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn claims_whose_answer_was_lost_are_given_back_and_run() {
    let (plan, windlass, runs, worker) = at_work().await;
    let client = windlass.client();
    let id = claim_meets(&plan, &client, lost()).await;
    client.wait(id).await.unwrap();
    let record = record(&windlass, id).await;
    assert_eq!(words(&record), ["pending", "claimed", "pending", "claimed", "running", "completed"]);
    assert_eq!(record.history[2].note.as_deref(), Some("the answer that gave it was lost"));
    assert_eq!((record.task.status.attempt, runs.of(id)), (1, 1));
    assert!(times(&record)[5] < secs(1), "{:?}", times(&record));
    worker.stop().await.unwrap();
}

/// A store that fails in the moment of a claim may fail in the next moments too.
#[tokio::test(start_paused = true)]
async fn claims_whose_answer_was_lost_are_found_when_the_store_is_back() {
    let (plan, windlass, _, worker) = at_work().await;
    let client = windlass.client();
    let id = claim_meets(&plan, &client, lost()).await;
    plan.set(&["turn", "tasks", "heartbeat"], down());
    pass(secs(15)).await;
    plan.mend();
    pass(secs(12)).await;
    let status = record(&windlass, id).await.task.status;
    assert_eq!((status.state, status.attempt, status.lease), (State::Completed, 1, 2));
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_report_is_kept_until_it_can_be_made() {
    let (plan, windlass, runs, worker) = at_work().await;
    let client = windlass.client();
    let id = client.submit(&work("a", 200)).await.unwrap().id;
    pass(ms(100)).await;
    plan.set(&["turn"], down());
    pass(secs(10)).await;
    assert_eq!(state(&windlass, id).await, State::Claimed);
    plan.mend();
    pass(secs(5)).await;
    let status = record(&windlass, id).await.task.status;
    assert_eq!((status.state, runs.of(id)), (State::Completed, 1));
    assert_eq!(status.started_at, Some(at(ms(0))), "the true start, however late it is told");
    worker.stop().await.unwrap();
}

/// It is left alone more and more while it is down, but not so long that nobody notices when it is back.
#[tokio::test(start_paused = true)]
async fn a_store_that_is_down_is_not_asked_all_the_time() {
    let (plan, windlass) = planned();
    let worker = worker(&windlass).handle(Runs::default().handler()).start().await.unwrap();
    windlass.client().submit(&work("a", 0)).await.unwrap();
    pass(secs(1)).await;
    windlass.client().submit(&work("a", 0)).await.unwrap();
    plan.set(&[], down());
    pass(secs(60)).await;
    plan.take_calls();
    pass(secs(600)).await;
    let calls = plan.take_calls();
    assert!(calls["campaign"] <= 140 && calls["heartbeat"] <= 601, "{calls:?}");
    assert_eq!(calls.len(), 2, "nothing is claimed that could not be started: {calls:?}");
    plan.mend();
    pass(secs(6)).await;
    let again = plan.take_calls();
    assert!(again["turn"] >= 1 && again["heartbeat"] >= 1 && again.contains_key("due"), "{again:?}");
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_closed_store_ends_the_worker() {
    let windlass = engine();
    let told: Arc<Mutex<Option<StopReason>>> = Arc::default();
    let seen = told.clone();
    let handler = move |context: Context, _: Work| {
        let told = told.clone();
        async move {
            *told.lock().unwrap() = Some(context.stopped().await);
            Ok::<_, TaskError>(())
        }
    };
    let worker = worker(&windlass).handle(handler).start().await.unwrap();
    windlass.client().submit(&work("a", 0)).await.unwrap();
    pass(secs(1)).await;
    windlass.close().await.unwrap();
    assert_eq!(worker.ended().await, Err(Error::Closed));
    pass(ms(1)).await;
    assert_eq!(*seen.lock().unwrap(), Some(StopReason::Shutdown));
    assert_eq!(worker.stop().await, Ok(()), "it has ended already");
}

/// When the handler of a worker whose heartbeats meet `fault` from 1 ms on is told to stop.
async fn fenced_after(dead_after: Duration, fault: Fault) -> Duration {
    let (plan, cut_off, sure) = planned_and_sure();
    let start = Instant::now();
    let told: Arc<Mutex<Vec<(StopReason, Duration)>>> = Arc::default();
    let seen = told.clone();
    let handler = move |context: Context, _: Work| {
        let told = told.clone();
        async move {
            let reason = context.stopped().await;
            told.lock().unwrap().push((reason, start.elapsed()));
            Err::<(), _>(TaskError::retry("stopped"))
        }
    };
    let first = worker(&cut_off).handle(handler).dead_after(dead_after).start().await.unwrap();
    let id = sure.client().submit(&work("a", 0)).await.unwrap().id;
    pass(ms(1)).await;
    plan.set(&[], fault);
    let done = async |_: Context, _: Work| Ok("by another");
    let second = worker(&sure).handle(done).start().await.unwrap();
    // The term of the first, who led, has to run out too.
    pass(dead_after.max(secs(30)) + secs(6)).await;
    let done = sure.client().wait(id).await.unwrap();
    assert_eq!(done.output::<String>().unwrap(), "by another");
    assert_eq!(done.task.status.attempt, 2, "a worker that was lost costs an attempt");
    second.stop().await.unwrap();
    drop(first);
    let told = seen.lock().unwrap().clone();
    assert!(matches!(told[..], [(StopReason::Fenced, _)]), "{told:?}");
    told[0].1
}

#[test]
fn handlers_are_fenced_before_others_may_take_their_tasks() {
    for dead_after in [secs(30), secs(20), secs(90)] {
        for fault in [down(), Fault::Silence] {
            let fenced = bounded(fenced_after(dead_after, fault.clone()));
            assert!(fenced < dead_after && fenced > dead_after / 2, "{dead_after:?} {fault:?}: {fenced:?}");
        }
    }
}

#[test]
fn handlers_of_a_nervous_worker_are_fenced_in_time_too() {
    for dead_after in [ms(300), secs(1), secs(3), secs(6)] {
        for fault in [down(), Fault::Silence] {
            let fenced = bounded(fenced_after(dead_after, fault.clone()));
            assert!(fenced < dead_after && fenced > dead_after / 2, "{dead_after:?} {fault:?}: {fenced:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_fenced_in_vain_goes_on() {
    let (plan, windlass, runs, worker) = at_work().await;
    let client = windlass.client();
    let id = client.submit(&work("a", 40_000)).await.unwrap().id;
    pass(secs(1)).await;
    plan.set(&[], down());
    pass(secs(26)).await;
    plan.mend();
    let done = client.wait(id).await.unwrap();
    let expected = ["pending", "claimed", "running", "pending", "claimed", "running", "completed"];
    assert_eq!(words(&done), expected);
    assert_eq!(
        (done.task.status.attempt, runs.of(id)),
        (1, 2),
        "released, so that the attempt is given back"
    );
    worker.stop().await.unwrap();
}

/// Somebody deregistered it while it worked: nobody took its tasks yet, and nobody may be left with a lease
/// that no one works for.
#[tokio::test(start_paused = true)]
async fn a_worker_that_was_forgotten_registers_again_and_goes_on() {
    for leads in [true, false] {
        let (windlass, runs) = (engine(), Runs::default());
        let client = windlass.client();
        let worker = worker(&windlass).handle(runs.handler()).leads(leads).start().await.unwrap();
        let id = client.submit(&work("a", 30_000)).await.unwrap().id;
        pass(secs(5)).await;
        windlass.store().deregister(worker.id().clone()).await.unwrap();
        pass(secs(6)).await;
        assert_eq!(client.workers().await.unwrap().len(), 1, "registered again");
        let next = client.submit(&work("b", 0)).await.unwrap().id;
        pass(secs(1)).await;
        assert_eq!(state(&windlass, next).await, State::Completed, "it goes on");
        pass(secs(180)).await;
        let record = record(&windlass, id).await;
        assert_eq!(record.task.status.state, State::Completed, "leads: {leads}, {:?}", words(&record));
        worker.stop().await.unwrap();
    }
}

/// A claim that is refused asks for a heartbeat: an idle worker that was forgotten is back within moments.
#[tokio::test(start_paused = true)]
async fn a_worker_that_was_forgotten_notices_at_its_next_claim() {
    let (windlass, runs) = (engine(), Runs::default());
    let client = windlass.client();
    let worker = worker(&windlass).handle(runs.handler()).start().await.unwrap();
    pass(secs(1)).await;
    windlass.store().deregister(worker.id().clone()).await.unwrap();
    let id = client.submit(&work("a", 0)).await.unwrap().id;
    pass(ms(500)).await;
    assert_eq!(state(&windlass, id).await, State::Completed);
    worker.stop().await.unwrap();
}
