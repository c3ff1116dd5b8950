//! Schedules: a task at each slot, once, whoever leads; and what becomes of slots that were missed or that
//! overlap.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::num::NonZeroU32;
use std::time::Duration;

use support::{
    Fault, START, at, bounded, engine, lost, ms, pass, planned, planned_and_sure, record, secs, state, take,
    work, worker,
};
use windlass::{
    Client, Error, Filter, Invalid, Missed, Overlap, Page, Record, Rejected, RunningWorker, State, Timestamp,
    Windlass,
};

const MINUTE: Duration = secs(60);

/// A worker for `work` that leads.
async fn start(windlass: &Windlass) -> RunningWorker {
    worker(windlass).handle(take).start().await.unwrap()
}

/// All tasks, oldest first.
async fn tasks(client: &Client) -> Vec<Record> {
    let page = Page { oldest_first: true, limit: 1_000, after: None };
    let listing = client.list(Filter::default(), page).await.unwrap();
    let mut records = Vec::new();
    for task in listing.tasks {
        records.push(client.get(task.id).await.unwrap().unwrap());
    }
    records
}

/// When each task was submitted, in minutes since the start.
async fn minutes(client: &Client) -> Vec<u64> {
    let since = |record: &Record| record.task.spec.created_at.since(START).as_secs() / 60;
    tasks(client).await.iter().map(since).collect()
}

/// The slots that tasks were submitted for, in minutes since the start, as their keys say.
async fn slots(client: &Client) -> Vec<u64> {
    let slot = |record: &Record| {
        let key = record.task.spec.key.clone().unwrap();
        let minute = (0..100_000).find(|minute| key.ends_with(&at(MINUTE * *minute).to_string()));
        u64::from(minute.expect("a slot in the key"))
    };
    tasks(client).await.iter().map(slot).collect()
}

#[tokio::test(start_paused = true)]
async fn a_schedule_fires_at_its_slots() {
    let windlass = engine();
    let client = windlass.client();
    let task = client
        .submit(&work("a", 5))
        .queue("default")
        .priority(7)
        .tag("cron")
        .actor("not used")
        .key("not used");
    let set = client.schedule("five", "*/5 * * * *", task).await.unwrap();
    assert_eq!((set.next_at, set.paused, set.fired), (at(MINUTE * 5), false, 0));
    let worker = start(&windlass).await;
    pass(MINUTE * 16).await;
    let tasks = tasks(&client).await;
    assert_eq!(minutes(&client).await, [5, 10, 15]);
    for (record, slot) in tasks.iter().zip([5, 10, 15]) {
        assert_eq!(record.task.spec.created_at, at(MINUTE * slot), "to the millisecond");
        assert_eq!(record.task.spec.key, Some(format!("schedule five {}", at(MINUTE * slot))));
        assert_eq!(record.history[0].actor.as_deref(), Some("schedule five"));
        assert_eq!((record.task.spec.priority, &*record.task.spec.tags[0]), (7, "cron"));
        assert_eq!(record.payload.as_str(), r#"{"name":"a","takes":5}"#);
        assert_eq!(record.task.status.state, State::Completed);
    }
    let now = &client.schedules().await.unwrap()[0];
    assert_eq!((now.fired, now.skipped, now.last_at), (3, 0, Some(at(MINUTE * 15))));
    assert_eq!((now.last_task, now.next_at), (Some(tasks[2].task.id), at(MINUTE * 20)));
    worker.stop().await.unwrap();
}

/// How late the task of each slot was submitted, by a schedule of every second and one idle worker.
#[tokio::test(start_paused = true)]
async fn a_schedule_of_every_second_fires_at_each_of_its_slots() {
    let windlass = engine();
    let client = windlass.client();
    client.schedule("second", "* * * * * *", client.submit(&work("a", 0))).await.unwrap();
    let worker = start(&windlass).await;
    pass(secs(25) + ms(500)).await;
    let tasks = tasks(&client).await;
    let slots: Vec<_> = (1..=25).map(|second| format!("schedule second {}", at(secs(second)))).collect();
    let keys: Vec<_> = tasks.iter().filter_map(|record| record.task.spec.key.clone()).collect();
    assert_eq!(keys, slots);
    for (record, second) in tasks.iter().zip(1..) {
        let late = record.task.spec.created_at.since(at(secs(second)));
        assert!(late <= ms(250), "slot {second} fired {late:?} late");
    }
    let now = &client.schedules().await.unwrap()[0];
    assert_eq!((now.fired, now.skipped, now.next_at), (25, 0, at(secs(26))));
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_a_schedule_is_refused() {
    let client = engine().client();
    let plain = || client.submit(&work("a", 0));
    let refused = async |schedule: windlass::SetSchedule| match schedule.await.unwrap_err() {
        Error::Rejected(Rejected::Invalid(Invalid { field, .. })) => field,
        other => panic!("{other}"),
    };
    assert_eq!(refused(client.schedule("a b", "@daily", plain())).await, "schedule");
    assert_eq!(refused(client.schedule("a", "61 * * * *", plain())).await, "cron");
    assert_eq!(refused(client.schedule("a", "@daily", plain()).zone("Mars")).await, "time zone");
    assert_eq!(refused(client.schedule("a", "@daily", plain().queue("a b"))).await, "queue");
    let most = Missed::All(NonZeroU32::new(101).unwrap());
    assert_eq!(
        refused(client.schedule("a", "@daily", plain()).missed(most)).await,
        "missed runs to make up for"
    );
    assert_eq!(client.schedules().await.unwrap(), []);
    let unknown = client.run_schedule("a").await.unwrap_err();
    assert_eq!(unknown.rejected(), Some(&Rejected::UnknownSchedule { name: "a".into() }));
    assert!(client.pause_schedule("a", true).await.is_err());
    assert!(!client.remove_schedule("a").await.unwrap());
}

/// What is submitted after nobody led from minute 1 to minute 7, by a schedule of every minute.
async fn after_a_gap(missed: Missed, overlap: Overlap) -> (Vec<u64>, Vec<u64>) {
    let windlass = engine();
    let client = windlass.client();
    let task = client.submit(&work("a", 0));
    client.schedule("s", "* * * * *", task).missed(missed).overlap(overlap).await.unwrap();
    let first = start(&windlass).await;
    pass(secs(90)).await;
    first.stop().await.unwrap();
    pass(secs(330) + ms(500)).await;
    let second = start(&windlass).await;
    pass(secs(65)).await;
    second.stop().await.unwrap();
    (slots(&client).await, minutes(&client).await)
}

#[tokio::test(start_paused = true)]
async fn missed_slots_are_made_up_for_as_asked() {
    let all = |number| Missed::All(NonZeroU32::new(number).unwrap());
    // The gap ends half a second after the slot of minute 7, which is on time; those of 2 to 6 are not.
    for (missed, overlap, expected) in [
        (Missed::One, Overlap::Allow, vec![1, 7, 8]),
        (Missed::Skip, Overlap::Allow, vec![1, 7, 8]),
        (all(3), Overlap::Allow, vec![1, 5, 6, 7, 8]),
        (all(100), Overlap::Allow, vec![1, 2, 3, 4, 5, 6, 7, 8]),
        (all(100), Overlap::Queue, vec![1, 2, 3, 4, 5, 6, 7, 8]),
        (all(100), Overlap::Skip, vec![1, 7, 8]),
    ] {
        let (slots, made) = after_a_gap(missed, overlap).await;
        assert_eq!(slots, expected, "{missed} {overlap}");
        assert!(made.iter().all(|minute| [1, 7, 8].contains(minute)), "{made:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn slots_that_nobody_fired_are_counted() {
    let windlass = engine();
    let client = windlass.client();
    client.schedule("s", "* * * * * *", client.submit(&work("a", 0))).await.unwrap();
    pass(secs(10) + ms(500)).await;
    let worker = start(&windlass).await;
    pass(secs(1)).await;
    let now = client.schedules().await.unwrap().remove(0);
    assert_eq!((now.fired, now.skipped), (2, 9), "one run makes up for ten, and the next is on time");
    let until = format!("9 slots until {}: no leader was there", at(secs(10)));
    assert!(now.left_out.as_ref().unwrap().starts_with(&until), "{now:?}");
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn slots_that_are_long_past_are_left_out_if_so_asked() {
    let windlass = engine();
    let client = windlass.client();
    client.schedule("s", "0 * * * *", client.submit(&work("a", 0))).missed(Missed::Skip).await.unwrap();
    client.schedule("t", "0 * * * *", client.submit(&work("b", 0))).await.unwrap();
    pass(MINUTE * 62).await;
    let worker = start(&windlass).await;
    pass(secs(1)).await;
    let (skipping, other) = (&client.schedules().await.unwrap()[0], &client.schedules().await.unwrap()[1]);
    assert_eq!((skipping.fired, skipping.skipped, skipping.next_at), (0, 1, at(MINUTE * 120)));
    assert!(skipping.left_out.as_ref().unwrap().contains("no leader was there"), "{skipping:?}");
    assert_eq!((other.fired, other.skipped, other.next_at), (1, 0, at(MINUTE * 120)), "one run by default");
    worker.stop().await.unwrap();
}

/// What becomes of tasks that take longer than it takes to the next slot.
async fn overlapping(overlap: Overlap, takes: u64) -> Vec<Record> {
    let windlass = engine();
    let client = windlass.client();
    client.schedule("s", "* * * * *", client.submit(&work("a", takes))).overlap(overlap).await.unwrap();
    let worker = start(&windlass).await;
    pass(secs(270)).await;
    let tasks = tasks(&client).await;
    drop(worker);
    tasks
}

#[tokio::test(start_paused = true)]
async fn runs_that_overlap_are_dealt_with_as_asked() {
    let started = |tasks: &[Record]| -> Vec<u64> {
        tasks.iter().filter_map(|one| Some(one.task.status.started_at?.since(START).as_secs())).collect()
    };
    let states =
        |tasks: &[Record]| -> Vec<&str> { tasks.iter().map(|one| one.task.status.state.word()).collect() };
    let allow = overlapping(Overlap::Allow, 100_000).await;
    assert_eq!(started(&allow), [60, 120, 180, 240]);
    let skip = overlapping(Overlap::Skip, 100_000).await;
    assert_eq!(started(&skip), [60, 180], "while one runs there is no other");
    let queue = overlapping(Overlap::Queue, 100_000).await;
    assert_eq!(states(&queue), ["completed", "completed", "running", "pending"]);
    assert_eq!(started(&queue)[..2], [60, 160], "one after the other");
    let replace = overlapping(Overlap::Replace, 100_000).await;
    assert_eq!(states(&replace), ["cancelled", "cancelled", "cancelled", "running"]);
    let last = replace[0].history.last().unwrap();
    assert_eq!((last.actor.as_deref(), last.note.as_deref()), (Some("schedule s"), Some("replaced")));
    // Nothing overlaps if they are quick.
    for overlap in Overlap::ALL {
        let quick = overlapping(overlap, 1_000).await;
        assert_eq!(states(&quick), ["completed"; 4], "{overlap}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_schedule_is_paused_and_goes_on_with_the_next_slot() {
    let windlass = engine();
    let client = windlass.client();
    let all = Missed::All(NonZeroU32::new(10).unwrap());
    client.schedule("s", "* * * * *", client.submit(&work("a", 0))).missed(all).await.unwrap();
    let worker = start(&windlass).await;
    pass(secs(90)).await;
    assert!(client.pause_schedule("s", true).await.unwrap().paused);
    pass(secs(180)).await;
    // Setting it again does not end the pause.
    client.schedule("s", "* * * * *", client.submit(&work("a", 0))).missed(all).await.unwrap();
    pass(secs(90)).await;
    assert!(!client.pause_schedule("s", false).await.unwrap().paused);
    pass(secs(125)).await;
    assert_eq!(slots(&client).await, [1, 7, 8], "those of the pause are not missed");
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_schedule_is_run_by_hand_at_any_time() {
    let windlass = engine();
    let client = windlass.client();
    client.schedule("s", "0 * * * *", client.submit(&work("a", 0))).paused(true).await.unwrap();
    let first = client.run_schedule("s").await.unwrap();
    let second = client.run_schedule("s").await.unwrap();
    assert!(first.created && second.created && first.id != second.id);
    let run = record(&windlass, first.id).await;
    assert_eq!((run.task.spec.key, run.history[0].actor.as_deref()), (None, Some("schedule s")));
    let schedule = &client.schedules().await.unwrap()[0];
    assert_eq!((schedule.fired, schedule.last_at, schedule.next_at), (2, None, at(MINUTE * 60)));
}

#[tokio::test(start_paused = true)]
async fn a_change_counts_from_now_on() {
    let windlass = engine();
    let client = windlass.client();
    let worker = start(&windlass).await;
    client.schedule("s", "* * * * *", client.submit(&work("a", 0))).await.unwrap();
    pass(secs(90)).await;
    client.schedule("s", "*/5 * * * *", client.submit(&work("b", 0))).await.unwrap();
    pass(secs(300)).await;
    // The same again changes nothing, not even the next slot.
    let before = client.schedules().await.unwrap().remove(0);
    let same = client.schedule("s", "*/5 * * * *", client.submit(&work("b", 0))).await.unwrap();
    assert_eq!((same.next_at, same.fired, same.last_task), (before.next_at, 2, before.last_task));
    client.schedule("s", "0 1 * * *", client.submit(&work("c", 0))).zone("Europe/Berlin").await.unwrap();
    assert_eq!(client.schedules().await.unwrap()[0].next_at, at(MINUTE * 60 * 24), "1:00 there is 0:00 here");
    assert!(client.remove_schedule("s").await.unwrap());
    pass(MINUTE * 60 * 30).await;
    assert_eq!(slots(&client).await, [1, 5], "and none after it was removed");
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_refused_is_noted_and_tried_at_the_next_slot() {
    let (plan, windlass) = planned();
    let client = windlass.client();
    let task = client.submit(&work("a", 0)).entity("planner:1").require_entity();
    client.schedule("bad", "* * * * *", task).await.unwrap();
    client.schedule("good", "* * * * *", client.submit(&work("b", 0))).await.unwrap();
    let worker = start(&windlass).await;
    pass(secs(190)).await;
    let bad = client.schedules().await.unwrap().remove(0);
    assert!(bad.error.as_ref().unwrap().contains("planner:1"), "{bad:?}");
    assert_eq!((bad.fired, bad.skipped, bad.next_at, bad.last_at), (0, 3, at(MINUTE * 4), None));
    assert_eq!(slots(&client).await, [1, 2, 3], "it delays only itself");
    assert_eq!(plan.calls("fire"), 9, "two tries of the bad one and one of the good one for each slot");
    client.register_entity("planner:1").await.unwrap();
    pass(secs(60)).await;
    let fine = client.schedules().await.unwrap().remove(0);
    assert_eq!((fine.fired, fine.skipped, fine.error), (1, 3, None));
    assert!(fine.left_out.unwrap().contains("planner:1"), "why slots were left out stays to be seen");
    worker.stop().await.unwrap();
}

/// The first leader sleeps in the middle of firing, beyond its term; the second fires the same slot.
#[tokio::test(start_paused = true)]
async fn two_leaders_make_one_task_for_a_slot() {
    for fault in [Fault::Late(secs(70)), lost()] {
        let (plan, sleepy, windlass) = planned_and_sure();
        let client = windlass.client();
        client.schedule("s", "* * * * *", client.submit(&work("a", 0))).await.unwrap();
        let first = start(&sleepy).await;
        pass(secs(30)).await;
        let second = start(&windlass).await;
        // What it was asked, or what it has to say, is held up.
        plan.once("task", fault.clone());
        plan.once("due", fault.clone());
        plan.once("fire", fault);
        pass(secs(300)).await;
        assert_eq!(slots(&client).await, [1, 2, 3, 4, 5]);
        assert_eq!(client.schedules().await.unwrap()[0].fired, 5);
        first.stop().await.unwrap();
        second.stop().await.unwrap();
    }
}

#[test]
fn many_schedules_of_one_slot_are_all_fired_in_time() {
    let late = bounded(async {
        let windlass = engine();
        let client = windlass.client();
        for number in 0..1_300 {
            let task = client.submit(&work("a", 0)).queue("nobody");
            client.schedule(&format!("s{number}"), "* * * * *", task).missed(Missed::Skip).await.unwrap();
        }
        let worker = start(&windlass).await;
        pass(secs(110)).await;
        let schedules = client.schedules().await.unwrap();
        worker.stop().await.unwrap();
        let fired = |updated: Timestamp| updated.since(at(MINUTE));
        schedules.iter().map(|one| (one.fired, fired(one.updated_at))).max_by_key(|one| one.1).unwrap()
    });
    assert_eq!(late.0, 1);
    assert!(late.1 <= secs(1), "{late:?} late");
}

#[tokio::test(start_paused = true)]
async fn a_schedule_goes_on_although_its_task_was_deleted() {
    let windlass = engine();
    let client = windlass.client();
    let worker = start(&windlass).await;
    client.schedule("s", "* * * * *", client.submit(&work("a", 0))).overlap(Overlap::Skip).await.unwrap();
    pass(secs(61)).await;
    let id = tasks(&client).await[0].task.id;
    assert_eq!(state(&windlass, id).await, State::Completed);
    client.delete(id).await.unwrap();
    pass(secs(60)).await;
    assert_eq!(slots(&client).await, [2]);
    worker.stop().await.unwrap();
}
