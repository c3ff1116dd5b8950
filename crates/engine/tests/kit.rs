//! The kit for tests of handlers: everything happens when the test says so, on a clock in its hand.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use serde_json::Value;
use support::{START, Work, pass, secs, times, words, work};
use windlass::testing::TestEngine;
use windlass::{Context, Missed, Rejected, State, TaskError, task_id};

async fn handler(context: Context, work: Work) -> Result<String, TaskError> {
    match &*work.name {
        "retry" if context.attempt() < 3 => Err(TaskError::retry("not yet")),
        "snooze" if context.lease() == 1 => Err(TaskError::snooze(secs(60))),
        "chain" if work.takes > 0 => {
            context.client().submit(&Work { takes: work.takes - 1, ..work }).await?;
            Ok("more".into())
        }
        "note" => {
            context.log("noted");
            context.progress(1, 2, None);
            let left = context.last_checkpoint::<u32>()?;
            context.checkpoint(&7)?;
            left.map(|left| left.to_string()).ok_or_else(|| TaskError::retry("left 7"))
        }
        "late" => std::future::pending().await,
        "panic" => panic!("on purpose"),
        name => Ok(name.to_owned()),
    }
}

async fn engine() -> TestEngine {
    TestEngine::new(|worker| worker.handle(handler)).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn nothing_happens_until_the_test_says_so() {
    let engine = engine().await;
    let first = engine.client().submit(&work("a", 0)).await.unwrap().id;
    let second = engine.client().submit(&work("b", 0)).priority(1).await.unwrap().id;
    pass(secs(1_000)).await;
    assert_eq!(engine.state(first).await.unwrap(), State::Pending);
    let record = engine.step().await.unwrap().unwrap();
    assert_eq!((record.task.id, record.result.unwrap().as_str()), (second, r#""b""#), "the first in line");
    assert_eq!(engine.state(first).await.unwrap(), State::Pending);
    assert_eq!(engine.step().await.unwrap().unwrap().task.id, first);
    assert!(engine.step().await.unwrap().is_none());
    assert_eq!(engine.now(), START);
    let unknown = task_id();
    let error = engine.state(unknown).await.unwrap_err();
    assert_eq!(error.rejected(), Some(&Rejected::NotFound { task: unknown }));
}

#[tokio::test(start_paused = true)]
async fn draining_runs_what_follows_too() {
    let engine = engine().await;
    engine.client().submit(&work("chain", 3)).await.unwrap();
    engine.client().submit(&work("retry", 0)).await.unwrap();
    let drained = engine.drain().await.unwrap();
    let results: Vec<_> = drained.iter().map(|one| one.task.status.state.word()).collect();
    assert_eq!(results, ["completed", "waiting_for_retry", "completed", "completed", "completed"]);
    let inputs: Vec<Work> = engine.submitted().await.unwrap();
    assert_eq!(inputs.iter().map(|work| work.takes).collect::<Vec<_>>(), [3, 0, 2, 1, 0]);
    assert_eq!(engine.tasks("work").await.unwrap().len(), 5);
    assert_eq!(engine.tasks("other").await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_task_is_run_before_everything_else() {
    let engine = engine().await;
    let waits = engine.client().submit(&work("a", 0)).priority(99).await.unwrap().id;
    let record = engine.run(&work("b", 0)).await.unwrap();
    assert_eq!(record.result.as_ref().unwrap().as_str(), r#""b""#);
    assert_eq!(words(&record), ["pending", "claimed", "running", "completed"]);
    assert_eq!(engine.state(waits).await.unwrap(), State::Pending);
    let failed = engine.run(&work("panic", 0)).await.unwrap();
    assert_eq!(failed.task.status.error.as_deref(), Some("the handler panicked: on purpose"));
}

#[tokio::test(start_paused = true)]
async fn the_clock_is_in_the_hand_of_the_test() {
    let engine = engine().await;
    let retry = engine.run(&work("retry", 0)).await.unwrap().task.id;
    let snooze = engine.run(&work("snooze", 0)).await.unwrap().task.id;
    engine.advance(secs(1)).await.unwrap();
    assert_eq!(engine.state(retry).await.unwrap(), State::Pending);
    assert_eq!(engine.drain().await.unwrap().len(), 1);
    engine.advance(secs(2)).await.unwrap();
    assert_eq!(engine.drain().await.unwrap().len(), 1);
    assert_eq!(engine.state(retry).await.unwrap(), State::Completed);
    assert_eq!(engine.state(snooze).await.unwrap(), State::Scheduled);
    // Longer than a worker may be silent, but this one only seems to be.
    engine.advance(secs(57)).await.unwrap();
    assert_eq!(engine.now(), START.plus(secs(60)));
    engine.drain().await.unwrap();
    let record = engine.record(snooze).await.unwrap();
    assert_eq!(times(&record).last(), Some(&secs(60)));
    assert_eq!(record.task.status.attempt, 1);
}

#[tokio::test(start_paused = true)]
async fn schedules_fire_when_the_clock_is_moved() {
    let engine = engine().await;
    let client = engine.client();
    client.schedule("hourly", "0 * * * *", client.submit(&work("a", 0))).await.unwrap();
    let all = Missed::All(std::num::NonZeroU32::new(24).unwrap());
    client.schedule("all", "30 * * * *", client.submit(&work("b", 0))).missed(all).await.unwrap();
    engine.advance(secs(1_799)).await.unwrap();
    assert_eq!(engine.drain().await.unwrap().len(), 0);
    engine.advance(secs(1)).await.unwrap();
    assert_eq!(engine.drain().await.unwrap().len(), 1);
    engine.advance(secs(4 * 3_600)).await.unwrap();
    let names: Vec<String> =
        engine.submitted::<Work>().await.unwrap().into_iter().map(|work| work.name).collect();
    assert_eq!(names.iter().filter(|name| *name == "a").count(), 1, "one run for all that were missed");
    assert_eq!(names.iter().filter(|name| *name == "b").count(), 5);
    assert_eq!(engine.drain().await.unwrap().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn what_handlers_tell_is_kept_and_handed_on() {
    let engine = engine().await;
    let first = engine.run(&work("note", 0)).await.unwrap();
    assert_eq!(first.notes[0].lines[0].text, "noted");
    assert_eq!(first.notes[0].progress.as_ref().unwrap().total, Some(2));
    engine.advance(secs(1)).await.unwrap();
    let second = engine.step().await.unwrap().unwrap();
    assert_eq!(second.result.unwrap().as_str(), r#""7""#);
}

/// The time limit of an attempt is real time, or tokio's if that is paused: nobody moves the clock while a
/// handler runs.
#[tokio::test(start_paused = true)]
async fn time_limits_hold() {
    let engine = engine().await;
    engine.client().submit(&work("late", 0)).timeout(secs(5)).await.unwrap();
    let record = engine.step().await.unwrap().unwrap();
    assert_eq!(record.task.status.state, State::WaitingForRetry);
    assert_eq!(record.task.status.error.as_deref(), Some("timed out after 5s"));
}

#[tokio::test(start_paused = true)]
async fn the_worker_is_configured_as_any_other() {
    let refused = TestEngine::new(|worker| worker).await.unwrap_err();
    assert!(refused.to_string().contains("number of handlers"), "{refused}");
    let engine = TestEngine::new(|worker| {
        let shared = async |context: Context| Ok(Value::from(*context.shared::<u64>()?));
        worker.handle_kind("shared", shared).share(7_u64).queues(["mail"])
    });
    let engine = engine.await.unwrap();
    engine.client().submit_json("shared", "null").await.unwrap();
    assert!(engine.step().await.unwrap().is_none(), "of another queue");
    engine.client().submit_json("shared", "null").queue("mail").await.unwrap();
    assert_eq!(engine.step().await.unwrap().unwrap().result.unwrap().as_str(), "7");
    let unfit = engine.submitted::<Work>().await.unwrap();
    assert_eq!(unfit, [], "none of this kind");
}

/// A real worker beside it sees the same store.
#[tokio::test(start_paused = true)]
async fn real_workers_may_be_started_on_it() {
    let engine = engine().await;
    let worker = engine.windlass().worker().handle(handler).start().await.unwrap();
    let id = engine.client().submit(&work("real", 0)).await.unwrap().id;
    let done = engine.client().wait(id).await.unwrap();
    assert_eq!(done.task.status.worker.as_ref(), Some(worker.id()));
    worker.stop().await.unwrap();
}

/// The clock is an hour ahead for ten seconds, and is then corrected: whatever was counted by it does not
/// wait for that hour.
#[tokio::test(start_paused = true)]
async fn a_clock_that_was_ahead_keeps_nothing_waiting() {
    let engine = engine().await;
    let client = engine.client();
    client.schedule("often", "* * * * * *", client.submit(&work("tick", 0))).await.unwrap();
    let retried = client.submit(&work("retry", 0)).await.unwrap().id;
    let later = client.submit(&work("later", 0)).delay(secs(1_800)).await.unwrap().id;
    engine.advance(secs(3_600)).await.unwrap();
    for _ in 0..10 {
        engine.advance(secs(1)).await.unwrap();
        engine.drain().await.unwrap();
    }
    assert_eq!(engine.state(later).await.unwrap(), State::Completed, "by that clock its moment had come");
    let [snoozed, lost] = [client.submit(&work("snooze", 0)).await.unwrap().id, retried];
    engine.drain().await.unwrap();
    assert_eq!(engine.state(lost).await.unwrap(), State::Completed);
    let fired = client.schedules().await.unwrap()[0].fired;
    engine.set_back(secs(3_600)).await.unwrap();
    assert_eq!(client.schedules().await.unwrap()[0].next_at, engine.now().plus(secs(1)));
    for second in 1..=60 {
        assert_eq!(engine.state(snoozed).await.unwrap(), State::Scheduled, "{second}");
        engine.advance(secs(1)).await.unwrap();
        engine.drain().await.unwrap();
    }
    assert_eq!(engine.state(snoozed).await.unwrap(), State::Completed);
    assert_eq!(client.schedules().await.unwrap()[0].fired, fired + 60, "each second once");
    // The ten seconds come again. Their slots were fired, and are not fired twice.
    engine.advance(secs(3_600 - 60)).await.unwrap();
    engine.drain().await.unwrap();
    let before = client.schedules().await.unwrap()[0].fired;
    engine.set_back(secs(5)).await.unwrap();
    engine.advance(secs(5)).await.unwrap();
    assert_eq!(client.schedules().await.unwrap()[0].fired, before);
}
