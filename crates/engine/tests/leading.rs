//! One worker leads: it does what the passing of time asks for, at its moment, and nothing else.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use support::{
    Fault, Plan, Spy, Work, at, bounded, engine, memory, ms, pass, planned, planned_and_sure, record, secs,
    spied, state, take, times, words, work, worker, zombie,
};
use windlass::{Command, Context, State, TaskError, Windlass, WorkerId, task_id};

async fn leader(windlass: &Windlass) -> (WorkerId, u64) {
    let leader = windlass.store().leader().await.unwrap().unwrap();
    (leader.holder, leader.term)
}

#[tokio::test(start_paused = true)]
async fn exactly_one_of_several_leads() {
    let inner = memory();
    let mut plans = Vec::new();
    let mut workers = Vec::new();
    for _ in 0..3 {
        let (plan, store) = Plan::around(inner.clone());
        let windlass = Windlass::new(store);
        workers.push(worker(&windlass).handle(take).start().await.unwrap());
        plans.push(plan);
    }
    let windlass = Windlass::new(inner);
    pass(secs(600)).await;
    assert_eq!(leader(&windlass).await.1, 1, "renewed, never followed");
    let looked: Vec<_> = plans.iter().map(|plan| plan.calls("due") > 0).collect();
    assert_eq!(looked.iter().filter(|looked| **looked).count(), 1, "{looked:?}");

    // It stops, and is followed within the time in which others try.
    let first = looked.iter().position(|looked| *looked).unwrap();
    workers.remove(first).stop().await.unwrap();
    pass(secs(5)).await;
    let (holder, term) = leader(&windlass).await;
    assert_eq!(term, 2);
    // The next one falls silent, and is followed when its lease is over.
    let second = workers.iter().position(|one| *one.id() == holder).unwrap();
    plans.remove(first);
    plans[second].set(&[], support::down());
    pass(secs(36)).await;
    let (third, term) = leader(&windlass).await;
    assert_eq!(term, 3);
    assert!(third != holder && workers.iter().any(|one| *one.id() == third));
    plans[second].mend();
    pass(secs(100)).await;
    assert_eq!(leader(&windlass).await, (third, 3));
    for worker in workers {
        worker.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn who_may_not_lead_does_not() {
    let windlass = engine();
    let client = windlass.client();
    let idle = worker(&windlass).handle(take).leads(false).start().await.unwrap();
    let taken = client.submit(&work("a", 0)).delay(secs(1)).await.unwrap().id;
    let id = client.submit_json("nobody", "1").delay(secs(1)).await.unwrap().id;
    pass(secs(600)).await;
    assert_eq!(windlass.store().leader().await.unwrap(), None);
    assert_eq!(state(&windlass, taken).await, State::Completed, "what is due is claimed without a leader");
    assert_eq!(state(&windlass, id).await, State::Scheduled, "everything else needs one worker that may");
    let leads = worker(&windlass).handle_kind("other", async |_| Ok(0)).start().await.unwrap();
    pass(ms(10)).await;
    assert_eq!(state(&windlass, id).await, State::Pending);
    leads.stop().await.unwrap();
    idle.stop().await.unwrap();
}

/// The first looks at what is due, sleeps beyond its term, and wakes up with a list that is not its business
/// any more.
#[tokio::test(start_paused = true)]
async fn a_leader_whose_term_is_over_changes_nothing() {
    let (plan, sleepy, windlass) = planned_and_sure();
    let first = worker(&sleepy).handle_kind("none", async |_| Ok(0)).start().await.unwrap();
    pass(ms(1)).await;
    let second = worker(&windlass).handle(take).start().await.unwrap();
    let id = windlass.client().submit(&work("a", 0)).delay(secs(12)).await.unwrap().id;
    pass(secs(11)).await;
    // It sees the task due at 12 s and is not heard of for 60 s.
    plan.set(&["due"], Fault::Late(secs(60)));
    pass(secs(45)).await;
    assert_eq!(leader(&windlass).await, (second.id().clone(), 2));
    let done = record(&windlass, id).await;
    assert_eq!(done.task.status.state, State::Completed);
    plan.mend();
    pass(secs(60)).await;
    assert!(plan.refusals().contains(&("turn", "not_leader")), "{:?}", plan.refusals());
    assert_eq!(record(&windlass, id).await, done);
    assert_eq!(leader(&windlass).await, (second.id().clone(), 2));
    first.stop().await.unwrap();
    second.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_a_moment_starts_at_that_moment() {
    let windlass = engine();
    let client = windlass.client();
    let handler = async |context: Context, work: Work| match (&*work.name, context.lease()) {
        ("retry", 1 | 2) => Err(TaskError::retry("r")),
        ("after", 1) => Err(TaskError::retry("a").after(ms(4_321))),
        ("snooze", 1) => Err(TaskError::snooze(ms(777))),
        _ => Ok(()),
    };
    let worker = worker(&windlass).handle(handler).start().await.unwrap();
    pass(ms(1_001)).await;
    let ended = async |name: &str, delay: u64| {
        let id = client.submit(&work(name, 0)).delay(ms(delay)).await.unwrap().id;
        client.wait(id).await.unwrap().task.status.finished_at.unwrap()
    };
    let begun = tokio::time::Instant::now();
    let (delay, retry, after, snooze) =
        tokio::join!(ended("delay", 1_234), ended("retry", 0), ended("after", 0), ended("snooze", 0));
    assert_eq!(delay, at(ms(2_235)));
    assert_eq!(retry, at(ms(4_001)), "after 1 s, and after 2 s more");
    assert_eq!(after, at(ms(5_322)));
    assert_eq!(snooze, at(ms(1_778)));
    assert!(begun.elapsed() < secs(5));
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_thousand_moments_are_kept() {
    let windlass = engine();
    let client = windlass.client();
    let mut batch = Vec::new();
    for number in 0..1_000 {
        // Not in order, and some together.
        let delay = ms(1_000 + number * 7_919 % 5_000 / 3);
        batch.push((delay, client.submit(&work("a", 0)).delay(delay).build().unwrap()));
    }
    client.submit_all(batch.iter().map(|(_, task)| task.clone()).collect()).await.unwrap();
    let worker = worker(&windlass).handle(take).pool(1_000).start().await.unwrap();
    pass(secs(10)).await;
    for (delay, task) in batch {
        let late = times(&record(&windlass, task.id).await)[1] - delay;
        // The leader rests for 5 ms if it is woken by something new, not between moments.
        assert!(late <= ms(1), "{delay:?} was {late:?} late");
    }
    worker.stop().await.unwrap();
}

/// A slow store makes one turn late, and not also the ones after it.
#[tokio::test(start_paused = true)]
async fn the_next_moment_is_not_put_off_by_the_one_before() {
    let (plan, windlass) = planned();
    let client = windlass.client();
    let worker = worker(&windlass).handle_kind("other", async |_| Ok(0)).start().await.unwrap();
    let first = client.submit(&work("a", 0)).delay(ms(1_000)).await.unwrap().id;
    let second = client.submit(&work("b", 0)).delay(ms(1_200)).await.unwrap().id;
    pass(ms(900)).await;
    plan.set(&["turn"], Fault::Late(ms(150)));
    pass(secs(1)).await;
    assert_eq!(times(&record(&windlass, first).await)[1], ms(1_000));
    assert_eq!(times(&record(&windlass, second).await)[1], ms(1_200));
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn leases_of_a_dead_worker_expire_and_another_runs_the_tasks() {
    let windlass = engine();
    let client = windlass.client();
    let id = client.submit(&work("a", 0)).await.unwrap().id;
    let last = client.submit(&work("b", 0)).max_attempts(1).await.unwrap().id;
    zombie(windlass.store(), ms(7_500), 2).await;
    let worker = worker(&windlass).handle(take).start().await.unwrap();
    pass(secs(20)).await;
    let taken = record(&windlass, id).await;
    assert_eq!(words(&taken), ["pending", "claimed", "pending", "claimed", "running", "completed"]);
    assert_eq!(times(&taken)[2..], [ms(7_500); 4]);
    assert_eq!((taken.task.status.attempt, taken.task.status.lease), (2, 2), "a crash counts");
    let last = record(&windlass, last).await;
    assert_eq!(words(&last), ["pending", "claimed", "pending", "claimed", "running", "completed"]);
    assert_eq!(
        (last.task.status.attempt, last.task.status.lease),
        (1, 2),
        "its only attempt had not started"
    );
    assert!(last.history[2].note.as_ref().unwrap().contains("stopped sending heartbeats"));
    worker.stop().await.unwrap();
}

/// What is due and cannot be moved: a row of a newer version, say.
fn unmovable(number: usize) -> Vec<Command> {
    (0..number).map(|_| Command::Promote { task: task_id() }).collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_again_and_again_makes_no_hot_loop() {
    for stuck in [1, 499, 500, 1_200] {
        let (spy, windlass) = spied();
        let worker = worker(&windlass).handle(take).start().await.unwrap();
        spy.always_due(unmovable(stuck));
        pass(secs(3_600)).await;
        let (looks, tries) = (spy.times("due"), spy.times("promote"));
        assert!(looks <= 2_000, "{looks} looks in an hour");
        assert!(tries <= stuck * 2_000, "{tries} tries in an hour");
        worker.stop().await.unwrap();
    }
}

#[test]
fn what_is_refused_hinders_no_other() {
    for stuck in [1, 499, 500, 1_200] {
        let late = bounded(async move {
            let (spy, windlass) = spied();
            let client = windlass.client();
            spy.always_due(unmovable(stuck));
            let early = client.submit(&work("a", 0)).delay(ms(1)).await.unwrap().id;
            pass(ms(10)).await;
            let worker = worker(&windlass).handle(take).start().await.unwrap();
            pass(secs(1)).await;
            let soon = client.submit(&work("b", 0)).delay(secs(5)).await.unwrap().id;
            pass(secs(30)).await;
            let first = times(&record(&windlass, early).await)[1] - ms(10);
            let second = times(&record(&windlass, soon).await)[1] - ms(6_010);
            worker.stop().await.unwrap();
            (first, second)
        });
        assert!(late.0 < secs(1) && late.1 < ms(20), "{stuck} rows in the way: {late:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_hears_of_what_is_new_even_if_nothing_rings() {
    let windlass = Windlass::new(Spy::deaf(memory()));
    let client = windlass.client();
    let worker = worker(&windlass).handle(take).start().await.unwrap();
    pass(secs(1)).await;
    let id = client.submit(&work("a", 0)).delay(secs(1)).await.unwrap().id;
    pass(secs(61)).await;
    assert_eq!(state(&windlass, id).await, State::Completed);
    worker.stop().await.unwrap();
}

/// It slept through its term, and since nobody else stood it leads again. That is the term it gives up in the
/// end.
#[tokio::test(start_paused = true)]
async fn who_stops_gives_up_the_term_it_is_in() {
    let (plan, windlass) = planned();
    let first = worker(&windlass).handle(take).start().await.unwrap();
    pass(secs(1)).await;
    plan.once("due", Fault::Late(secs(60)));
    pass(secs(100)).await;
    assert_eq!(leader(&windlass).await, (first.id().clone(), 2));
    first.stop().await.unwrap();
    let second = worker(&windlass).handle(take).start().await.unwrap();
    pass(secs(1)).await;
    assert_eq!(leader(&windlass).await, (second.id().clone(), 3));
    second.stop().await.unwrap();
}
