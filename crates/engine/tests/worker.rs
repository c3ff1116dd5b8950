//! What a worker takes, when, in which order, and how much at once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use support::{
    Spy, Work, at, engine, memory, ms, pass, record, secs, spied, state, take, times, words, work, worker,
};
use windlass::{Context, Filter, Page, State, TaskError, Windlass};

/// The names of what was begun, in that order.
#[derive(Clone, Default)]
struct Begun(Arc<Mutex<Vec<String>>>);

impl Begun {
    fn handler(
        &self,
    ) -> impl Fn(Context, Work) -> std::pin::Pin<Box<dyn Future<Output = Result<(), TaskError>> + Send>> + use<>
    {
        let begun = self.0.clone();
        move |context, work| {
            begun.lock().unwrap().push(work.name.clone());
            Box::pin(take(context, work))
        }
    }

    fn names(&self) -> String {
        self.0.lock().unwrap().concat()
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_runs_as_many_as_its_pool_and_no_more() {
    for pool in [1, 3, 10] {
        let windlass = engine();
        let client = windlass.client();
        for _ in 0..50 {
            client.submit(&work("a", 100)).await.unwrap();
        }
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let seen = most.clone();
        let handler = move |context, work| {
            let (running, most) = (running.clone(), most.clone());
            async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let ended = take(context, work).await;
                running.fetch_sub(1, Ordering::SeqCst);
                ended
            }
        };
        let worker = worker(&windlass).handle(handler).pool(pool).start().await.unwrap();
        // Each round takes 100 ms, and there is nothing between two rounds.
        let rounds = 50_u64.div_ceil(pool as u64);
        pass(ms(rounds * 100 + 1)).await;
        let left = Filter { states: vec![State::Completed], ..Filter::default() };
        assert_eq!(client.list(left, Page::default()).await.unwrap().tasks.len(), 50, "pool {pool}");
        assert_eq!(seen.load(Ordering::SeqCst), pool);
        worker.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_takes_only_its_kinds_and_queues() {
    let windlass = engine();
    let client = windlass.client();
    let mine = client.submit(&work("a", 0)).queue("mail").await.unwrap().id;
    let also = client.submit_json("also", "{}").queue("post").await.unwrap().id;
    let other_queue = client.submit(&work("b", 0)).await.unwrap().id;
    let other_kind = client.submit_json("other", "{}").queue("mail").await.unwrap().id;
    let worker = worker(&windlass)
        .handle(take)
        .handle_kind("also", async |_| Ok(Value::Null))
        .queues(["mail", "post"])
        .start()
        .await
        .unwrap();
    pass(secs(100)).await;
    for (id, expected) in [
        (mine, State::Completed),
        (also, State::Completed),
        (other_queue, State::Pending),
        (other_kind, State::Pending),
    ] {
        assert_eq!(state(&windlass, id).await, expected);
    }
    let known = &client.workers().await.unwrap()[0];
    assert_eq!(known.queues.iter().map(|name| &**name).collect::<Vec<_>>(), ["mail", "post"]);
    assert_eq!(known.kinds.iter().map(|name| &**name).collect::<Vec<_>>(), ["also", "work"]);
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_submitted_to_an_idle_worker_starts_at_once() {
    let windlass = engine();
    let client = windlass.client();
    let worker = worker(&windlass).handle(take).pool(2).start().await.unwrap();
    pass(ms(12_345)).await;
    let first = client.submit(&work("a", 500)).await.unwrap().id;
    let second = client.submit(&work("b", 700)).await.unwrap().id;
    let third = client.submit(&work("c", 0)).await.unwrap().id;
    pass(secs(1)).await;
    let moment = |id| {
        let windlass = &windlass;
        async move { times(&record(windlass, id).await) }
    };
    // Submitted, claimed, started, done.
    assert_eq!(moment(first).await, [ms(12_345), ms(12_345), ms(12_345), ms(12_845)]);
    assert_eq!(moment(second).await, [ms(12_345), ms(12_345), ms(12_345), ms(13_045)]);
    assert_eq!(
        moment(third).await,
        [ms(12_345), ms(12_845), ms(12_845), ms(12_845)],
        "as soon as one is free"
    );
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_quick_task_is_written_down_once_when_it_is_over() {
    let (spy, windlass) = spied();
    let worker = worker(&windlass).handle(take).leads(false).start().await.unwrap();
    pass(secs(1)).await;
    spy.forget();
    let id = windlass.client().submit(&work("a", 249)).await.unwrap().id;
    pass(ms(100)).await;
    assert_eq!(state(&windlass, id).await, State::Claimed);
    pass(secs(1)).await;
    let record = record(&windlass, id).await;
    assert_eq!(words(&record), ["pending", "claimed", "running", "completed"]);
    assert_eq!(times(&record), [ms(1_000), ms(1_000), ms(1_000), ms(1_249)]);
    assert_eq!(spy.said(), ["submit", "claim", "finish", "claim"]);
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_long_task_is_marked_with_the_moment_it_really_started() {
    let (spy, windlass) = spied();
    let worker = worker(&windlass).handle(take).start().await.unwrap();
    let id = windlass.client().submit(&work("a", 5_000)).await.unwrap().id;
    pass(ms(249)).await;
    assert_eq!(state(&windlass, id).await, State::Claimed);
    pass(ms(2)).await;
    let status = record(&windlass, id).await.task.status;
    assert_eq!((status.state, status.started_at), (State::Running, Some(at(ms(0)))));
    pass(secs(9)).await;
    assert_eq!(state(&windlass, id).await, State::Completed);
    assert_eq!(spy.times("start"), 1);
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn higher_priority_is_first_then_first_come() {
    let (windlass, begun) = (engine(), Begun::default());
    let client = windlass.client();
    for (name, priority) in [("a", 0), ("b", 5), ("c", -1), ("d", 5), ("e", 9), ("f", 0)] {
        client.submit(&work(name, 10)).priority(priority).await.unwrap();
    }
    let worker = worker(&windlass).handle(begun.handler()).pool(1).buffer(0).start().await.unwrap();
    pass(ms(5)).await;
    client.submit(&work("g", 10)).priority(99).await.unwrap();
    pass(secs(1)).await;
    assert_eq!(begun.names(), "egbdafc");
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn tasks_of_an_entity_run_one_at_a_time_in_the_order_of_submission() {
    let windlass = engine();
    let client = windlass.client();
    let log: Arc<Mutex<BTreeMap<String, Vec<u64>>>> = Arc::default();
    let seen = log.clone();
    let running: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
    let handler = move |_: Context, work: Work| {
        let (seen, running) = (seen.clone(), running.clone());
        async move {
            let now =
                *running.lock().unwrap().entry(work.name.clone()).and_modify(|now| *now += 1).or_insert(1);
            assert_eq!(now, 1, "two tasks of {} at once", work.name);
            pass(ms(work.takes % 7)).await;
            seen.lock().unwrap().entry(work.name.clone()).or_default().push(work.takes);
            running.lock().unwrap().insert(work.name, 0);
            Ok::<_, TaskError>(())
        }
    };
    for number in 0..200 {
        let entity = format!("planner:{}", number % 8);
        // Priorities order entities against each other, not the tasks of one.
        let priority = i32::try_from(number * 7 % 5).unwrap();
        client.submit(&work(&entity, number)).entity(&entity).priority(priority).await.unwrap();
    }
    let one = worker(&windlass).handle(handler.clone()).pool(20).start().await.unwrap();
    let other = worker(&windlass).handle(handler).pool(20).start().await.unwrap();
    pass(secs(10)).await;
    let log = log.lock().unwrap().clone();
    assert_eq!(log.values().map(Vec::len).sum::<usize>(), 200);
    assert!(log.values().all(|numbers| numbers.is_sorted()), "{log:?}");
    one.stop().await.unwrap();
    other.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_wake_up_that_was_missed_is_made_up_for_by_looking() {
    let windlass = Windlass::new(Spy::deaf(memory()));
    let client = windlass.client();
    let worker = worker(&windlass).handle(take).poll(secs(20)).start().await.unwrap();
    pass(secs(1)).await;
    let id = client.submit(&work("a", 0)).await.unwrap().id;
    pass(secs(18)).await;
    assert_eq!(state(&windlass, id).await, State::Pending);
    pass(secs(2)).await;
    assert_eq!(state(&windlass, id).await, State::Completed);
    worker.stop().await.unwrap();
}

/// Forever is a time like any other: a poll that never comes, handlers that may take as long as they like.
#[tokio::test(start_paused = true)]
async fn forever_is_long_enough() {
    let windlass = engine();
    let client = windlass.client();
    let forever = std::time::Duration::MAX;
    let worker = worker(&windlass).handle(take).poll(forever).grace(forever).patience(forever);
    let worker = worker.start().await.unwrap();
    let id = client.submit(&work("a", 1_000)).await.unwrap().id;
    pass(ms(500)).await;
    worker.stop().await.unwrap();
    assert_eq!(state(&windlass, id).await, State::Completed);
}

/// Numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

#[tokio::test(start_paused = true)]
async fn thousands_of_tasks_end_as_they_should() {
    const SEED: u64 = 20_260_101;
    const WAYS: [(&str, State, u32); 9] = [
        ("done", State::Completed, 1),
        ("fail", State::Failed, 1),
        ("always", State::DeadLetter, 3),
        ("once", State::Completed, 2),
        ("snooze", State::Completed, 1),
        ("cancel", State::Cancelled, 1),
        ("panic", State::DeadLetter, 3),
        ("late", State::DeadLetter, 3),
        ("unfit", State::Failed, 1),
    ];
    let handler = async |context: Context, work: Work| {
        pass(ms(work.takes)).await;
        match &*work.name {
            "fail" => Err(TaskError::fail("f")),
            "always" => Err(TaskError::retry("a")),
            "once" if context.attempt() == 1 => Err(TaskError::retry("o")),
            "snooze" if context.lease() == 1 => Err(TaskError::snooze(secs(2))),
            "cancel" => Err(TaskError::cancel("c")),
            "panic" => panic!("on purpose"),
            "late" => std::future::pending().await,
            _ => Ok(()),
        }
    };
    let windlass = engine();
    let client = windlass.client();
    let (mut dice, mut submitted) = (Dice(SEED), Vec::new());
    for _ in 0..1_500 {
        let way = WAYS[usize::try_from(dice.roll(9)).unwrap()];
        let mut task = client.submit(&work(way.0, dice.roll(40)));
        if way.0 == "unfit" {
            task = client.submit_json("work", r#"{"takes":"?"}"#);
        }
        submitted.push((way, task.timeout(secs(3)).build().unwrap()));
    }
    for batch in submitted.chunks(500) {
        client.submit_all(batch.iter().map(|(_, task)| task.clone()).collect()).await.unwrap();
    }
    let mut workers = Vec::new();
    for _ in 0..3 {
        workers.push(worker(&windlass).handle(handler).pool(25).patience(ms(10)).start().await.unwrap());
    }
    let mut expected = BTreeMap::<State, u64>::new();
    for (way, task) in &submitted {
        let status = client.wait(task.id).await.unwrap().task.status.clone();
        assert_eq!((status.state, status.attempt), (way.1, way.2), "{} of seed {SEED}", way.0);
        *expected.entry(way.1).or_default() += 1;
    }
    let counts = client.stats().await.unwrap();
    let counts: BTreeMap<_, _> = counts.into_iter().map(|one| (one.state, one.tasks)).collect();
    assert_eq!(counts, expected, "seed {SEED}");
    for worker in workers {
        worker.stop().await.unwrap();
    }
}
