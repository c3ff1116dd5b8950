//! Schedules: set, changed, paused, removed; and fired, once for each slot.

use std::num::NonZeroU32;
use std::time::Duration;

use windlass_core::{
    Ageing, Backoff, Command, Firing, Jitter, Json, Lane, Missed, Name, NewSchedule, NewTask, Overlap,
    Rejected, RetryPolicy, Schedule, Start, State, Template, Timestamp, WorkerId, limits,
};

use super::{Case, KIND, entity, firing, hourly, id, ids, scenarios};
use crate::Error;

scenarios![
    a_schedule_is_kept_as_it_was_set,
    schedules_are_listed_by_namespace_and_name,
    setting_again_changes_it_and_keeps_what_was_fired,
    a_repeated_set_moves_nothing,
    what_was_left_out_is_kept_with_its_reason,
    new_times_begin_anew,
    a_pause_lasts_until_it_is_ended,
    removing_says_whether_there_was_one,
    senseless_schedules_are_refused,
    there_may_be_ten_thousand,
    due_schedules_come_earliest_first,
    a_full_answer_promises_no_moment,
    the_next_moment_is_a_task_s_or_a_schedule_s,
    what_never_comes_is_no_moment,
    a_slot_is_fired_once,
    a_slot_makes_one_task_even_if_it_is_fired_again,
    two_schedules_have_their_own_slots,
    a_leader_fires_in_its_term,
    an_unknown_schedule_is_not_fired,
    a_firing_is_whole_or_nothing,
    a_bad_firing_is_refused_before_anything_else,
    missed_slots_are_made_up_for_in_one_firing,
    slots_may_be_left_out,
    a_run_by_hand_moves_nothing,
    an_error_is_told_until_the_next_firing,
    a_queued_run_waits_for_the_one_before,
    a_paused_schedule_can_be_fired_by_hand,
    no_slot_is_fired_after_a_pause,
    schedules_outlive_a_crash,
    one_slot_has_one_winner,
];

const HOUR: Duration = Duration::from_secs(3600);

async fn all(case: &Case) -> Vec<Schedule> {
    case.store().schedules().await.unwrap()
}

async fn only(case: &Case) -> Schedule {
    let mut all = all(case).await;
    assert_eq!(all.len(), 1, "one schedule: {all:?}");
    all.remove(0)
}

/// The names of the schedules that are due.
async fn due(case: &Case, limit: usize) -> Vec<String> {
    let due = case.store().due(limit).await.unwrap();
    due.schedules.iter().map(|schedule| schedule.name.to_string()).collect()
}

/// Fires, and expects that it is refused and changes nothing.
async fn refused(case: &Case, firing: Firing, term: Option<u64>) -> Error {
    let before = case.snapshot().await;
    let error = case.store().fire(firing, term).await.unwrap_err();
    assert_eq!(case.snapshot().await, before, "what was refused changed something: {error}");
    error
}

/// Everything about it comes back, the task to submit too.
async fn a_schedule_is_kept_as_it_was_set(case: &Case) {
    let task = NewTask {
        queue: Name::queue("reports").unwrap(),
        priority: -3,
        ageing: Ageing { per_hour: 1_500, per_retry: 7 },
        lane: Some(Lane::new("it's a \"lane\" 😀", 3).unwrap().strict()),
        require_entity: true,
        timeout: Some(Duration::from_nanos(5_000_000_999)),
        tags: vec!["a,b".into(), "%_'\"".into()],
        max_attempts: None,
        retry: RetryPolicy {
            backoff: Backoff::Exponential { factor: 2.5 },
            base: Duration::from_millis(1),
            cap: Duration::from_secs(5),
            jitter: Jitter::Percent(20),
        },
        ..NewTask::new(
            id(1),
            Name::kind("report:make").unwrap(),
            Json::payload(r#"{"a":1e400,"a":"\u0000"}"#).unwrap(),
        )
    };
    let policies = [
        (Missed::Skip, Overlap::Allow),
        (Missed::One, Overlap::Skip),
        (Missed::All(NonZeroU32::MIN), Overlap::Queue),
        (Missed::All(NonZeroU32::new(limits::CATCH_UP).unwrap()), Overlap::Replace),
    ];
    for (n, (missed, overlap)) in policies.into_iter().enumerate() {
        let new = NewSchedule {
            namespace: Name::namespace("tenant").unwrap(),
            name: Name::new("schedule", &format!("n.i_g:h-{n}")).unwrap(),
            cron: "*/5 0 1-15 * 1,3 'é'".into(),
            zone: "America/Argentina/ComodRivadavia".into(),
            template: Template::new(task.clone()),
            missed,
            overlap,
            paused: Some(n == 1),
            next_at: case.now().plus(Duration::from_micros(1)),
        };
        let set = case.schedule(new.clone()).await;
        assert_eq!(set, new.clone().admit(None, case.now()));
        assert_eq!((&set.template, set.missed, set.overlap), (&new.template, missed, overlap));
        assert_eq!(all(case).await.last(), Some(&set));
    }
}

/// In the order of their bytes. The same name elsewhere is another schedule.
async fn schedules_are_listed_by_namespace_and_name(case: &Case) {
    for (namespace, name) in [("b", "a"), ("a", "b"), ("a", "a"), ("B", "a"), ("a", "10"), ("a", "9")] {
        let namespace = Name::namespace(namespace).unwrap();
        case.schedule(NewSchedule { namespace, ..hourly(name, case.now()) }).await;
    }
    let listed = all(case).await;
    let names: Vec<_> = listed.iter().map(|one| [&*one.namespace, &*one.name]).collect();
    assert_eq!(names, [["B", "a"], ["a", "10"], ["a", "9"], ["a", "a"], ["a", "b"], ["b", "a"]]);
}

/// Every setting is the new one; what has happened stays.
async fn setting_again_changes_it_and_keeps_what_was_fired(case: &Case) {
    let first = case.schedule(hourly("s", case.now())).await;
    let fired = Firing {
        skipped: 2,
        left_out: Some("late".into()),
        error: Some("late".into()),
        ..firing(&first, id(1))
    };
    case.store().fire(fired, None).await.unwrap();
    let fired = only(case).await;
    case.pass(5);
    let task = NewTask::new(id(0), Name::kind("other").unwrap(), Json::payload("[2]").unwrap());
    let new = NewSchedule {
        cron: "1 * * * *".into(),
        zone: "Europe/Berlin".into(),
        template: Template::new(task),
        missed: Missed::Skip,
        overlap: Overlap::Queue,
        paused: Some(true),
        ..hourly("s", case.now().plus(HOUR))
    };
    let changed = case.schedule(new.clone()).await;
    let expected = Schedule {
        cron: new.cron,
        zone: new.zone,
        template: new.template,
        missed: new.missed,
        overlap: new.overlap,
        paused: true,
        next_at: new.next_at,
        updated_at: case.now(),
        ..fired
    };
    assert_eq!((changed, only(case).await), (expected.clone(), expected));
}

/// I14: a program that sets its schedules at every start does not fire again, or leave out, what it fired
/// before.
async fn a_repeated_set_moves_nothing(case: &Case) {
    let first = case.schedule(hourly("s", case.now())).await;
    case.store().fire(firing(&first, id(1)), None).await.unwrap();
    let fired = only(case).await;
    for next_at in [Timestamp::MIN, case.now(), Timestamp::MAX] {
        assert_eq!(case.schedule(hourly("s", next_at)).await, fired);
    }
}

/// Why slots were left out stays to be seen after others were fired.
async fn what_was_left_out_is_kept_with_its_reason(case: &Case) {
    let first = case.schedule(hourly("s", case.now())).await;
    let late = Firing { skipped: 2, left_out: Some("2 slots: late".into()), ..firing(&first, id(1)) };
    case.store().fire(late, None).await.unwrap();
    let then = only(case).await;
    assert_eq!((then.fired, then.skipped, then.left_out.as_deref()), (1, 2, Some("2 slots: late")));
    case.store().fire(firing(&then, id(2)), None).await.unwrap();
    let then = only(case).await;
    assert_eq!((then.fired, then.skipped, then.left_out.as_deref()), (2, 2, Some("2 slots: late")));
    let refused = firing(&then, id(3)).refused(&"no such entity");
    case.store().fire(refused, None).await.unwrap();
    let then = only(case).await;
    assert_eq!((then.fired, then.skipped, then.error.as_deref()), (2, 3, Some("no such entity")));
    assert!(then.left_out.unwrap().ends_with(": no such entity"));
}

/// Another expression, or another zone: the first slot from now on.
async fn new_times_begin_anew(case: &Case) {
    let first = case.schedule(hourly("s", case.now().plus(HOUR))).await;
    let next_at = case.now().plus(2 * HOUR);
    let other = NewSchedule { zone: "Asia/Tokyo".into(), ..hourly("s", next_at) };
    assert_eq!(case.schedule(other.clone()).await.next_at, next_at);
    let other = NewSchedule { cron: "@daily".into(), next_at: first.next_at, ..other };
    assert_eq!(case.schedule(other).await.next_at, first.next_at);
}

/// What is paused is not due, whoever sets it again without a word about that; and the end of a pause makes
/// up for nothing.
async fn a_pause_lasts_until_it_is_ended(case: &Case) {
    let slot = case.now().plus(HOUR);
    case.schedule(hourly("s", slot)).await;
    let paused = case.schedule(NewSchedule { paused: Some(true), ..hourly("s", slot) }).await;
    assert!(paused.paused);
    assert!(case.schedule(hourly("s", slot)).await.paused);
    case.pass(3 * 3600);
    let due = case.store().due(9).await.unwrap();
    assert_eq!((due.schedules, due.next), (vec![], None));
    let next_at = case.now().plus(HOUR);
    let resumed = case.schedule(NewSchedule { paused: Some(false), ..hourly("s", next_at) }).await;
    assert_eq!((resumed.paused, resumed.next_at), (false, next_at));
    assert_eq!(case.store().due(9).await.unwrap().next, Some(next_at));
    let again = NewSchedule { paused: Some(false), ..hourly("s", next_at.plus(HOUR)) };
    assert_eq!(case.schedule(again).await.next_at, next_at, "there was no pause to end");
}

/// I1: what it has submitted stays, and a new one of that name knows nothing of the old.
async fn removing_says_whether_there_was_one(case: &Case) {
    let (namespace, name) = (Name::default(), Name::new("schedule", "s").unwrap());
    let remove = || async { case.store().remove_schedule(namespace.clone(), name.clone()).await.unwrap() };
    assert!(!remove().await);
    let first = case.schedule(hourly("s", case.now())).await;
    let tenant = Name::namespace("tenant").unwrap();
    assert!(
        !case.store().remove_schedule(tenant.clone(), name.clone()).await.unwrap(),
        "that of another namespace"
    );
    case.store().fire(firing(&first, id(1)), None).await.unwrap();
    assert!(remove().await);
    assert!(!remove().await);
    assert_eq!((all(case).await, case.state(id(1)).await), (vec![], State::Pending));
    assert_eq!(case.store().due(9).await.unwrap().schedules, []);
    assert_eq!(case.schedule(hourly("s", case.now())).await, first);
}

/// C75: refused with what would be accepted, and nothing changes.
async fn senseless_schedules_are_refused(case: &Case) {
    let good = || hourly("s", case.now());
    let first = case.schedule(good()).await;
    let task = |spoil: fn(&mut NewTask)| {
        let mut task = good().template.task().clone();
        spoil(&mut task);
        Template::new(task)
    };
    let many = NonZeroU32::new(limits::CATCH_UP + 1).unwrap();
    for bad in [
        NewSchedule { cron: String::new(), ..good() },
        NewSchedule { cron: "x".repeat(limits::CRON_BYTES + 1), ..good() },
        NewSchedule { cron: "* *\0* *".into(), ..good() },
        NewSchedule { zone: String::new(), ..good() },
        NewSchedule { zone: "x".repeat(limits::CRON_BYTES + 1), ..good() },
        NewSchedule { missed: Missed::All(many), ..good() },
        NewSchedule { template: task(|task| task.timeout = Some(Duration::ZERO)), ..good() },
        NewSchedule { template: task(|task| task.tags = vec![String::new()]), ..good() },
    ] {
        let error = case.store().set_schedule(bad.clone()).await.expect_err(&format!("{bad:?}"));
        assert_eq!(error.code(), "invalid_task", "{error}");
    }
    assert_eq!(only(case).await, first);
}

/// Limits: one more is refused; those that are there can still be changed, and one that goes makes room.
async fn there_may_be_ten_thousand(case: &Case) {
    let name = |n: usize| format!("s{n}");
    for n in 0..limits::SCHEDULES {
        case.schedule(hourly(&name(n), Timestamp::MAX)).await;
    }
    let one_more = async |name: &str| case.store().set_schedule(hourly(name, Timestamp::MAX)).await;
    let error = one_more("more").await.unwrap_err();
    assert!(error.code() == "invalid_task" && error.to_string().contains("10000"), "{error}");
    assert_eq!(all(case).await.len(), limits::SCHEDULES);
    let changed = NewSchedule { paused: Some(true), ..hourly(&name(7), Timestamp::MAX) };
    assert!(case.schedule(changed).await.paused);
    let seventh = Name::new("schedule", &name(7)).unwrap();
    assert!(case.store().remove_schedule(Name::default(), seventh.clone()).await.unwrap());
    one_more("more").await.unwrap();
    assert_eq!(one_more("s7").await.unwrap_err().code(), "invalid_task");
}

/// C54: by slot, then by namespace and name; to the microsecond, and no more than asked for.
async fn due_schedules_come_earliest_first(case: &Case) {
    let at = |seconds| case.now().plus(Duration::from_secs(seconds));
    for (name, seconds) in [("d", 30), ("c", 10), ("b", 20), ("a", 20), ("never", 99)] {
        case.schedule(hourly(name, at(seconds))).await;
    }
    let earliest = Name::namespace("A").unwrap();
    case.schedule(NewSchedule { namespace: earliest, ..hourly("z", at(20)) }).await;
    case.schedule(NewSchedule { paused: Some(true), ..hourly("paused", at(0)) }).await;
    assert_eq!((due(case, 9).await, case.store().due(9).await.unwrap().next), (vec![], Some(at(10))));
    let (end, last) = (at(30), at(99));
    case.clock.set(end.minus(Duration::from_micros(1)));
    assert_eq!(due(case, 9).await, ["c", "z", "a", "b"]);
    case.clock.set(end);
    assert_eq!(due(case, 9).await, ["c", "z", "a", "b", "d"]);
    assert_eq!(due(case, 3).await, ["c", "z", "a"]);
    assert_eq!(case.store().due(9).await.unwrap().next, Some(last));
    let listed = all(case).await;
    for schedule in case.store().due(9).await.unwrap().schedules {
        assert!(listed.contains(&schedule), "as it is in the list");
    }
}

/// C54: a leader that got as many as it asked for asks again at once. Tasks and schedules are counted apart.
async fn a_full_answer_promises_no_moment(case: &Case) {
    let (now, later) = (case.now(), case.now().plus(HOUR));
    case.schedule(hourly("a", now)).await;
    case.schedule(hourly("b", now)).await;
    case.schedule(hourly("c", later)).await;
    let moments = [(0, None), (1, None), (2, None), (3, Some(later))];
    for (limit, next) in moments {
        let due = case.store().due(limit).await.unwrap();
        assert_eq!((due.schedules.len(), due.next), (limit.min(2), next), "limit {limit}");
    }
    case.submit(NewTask { start: Start::After(Duration::from_secs(1)), ..case.task() }).await;
    case.pass(1);
    for (limit, next) in moments {
        let due = case.store().due(limit).await.unwrap();
        assert_eq!((due.commands.len(), due.schedules.len()), (limit.min(1), limit.min(2)), "limit {limit}");
        assert_eq!(due.next, next, "limit {limit}");
    }
}

/// C54: one timer for both.
async fn the_next_moment_is_a_task_s_or_a_schedule_s(case: &Case) {
    let (soon, later) = (case.now().plus(Duration::from_secs(10)), case.now().plus(HOUR));
    case.schedule(hourly("s", later)).await;
    let task = case.submit(NewTask { start: Start::At(soon), ..case.task() }).await;
    assert_eq!(case.store().due(9).await.unwrap().next, Some(soon));
    case.cancel(task).await.unwrap();
    case.submit(NewTask { start: Start::At(later.plus(HOUR)), ..case.task() }).await;
    assert_eq!(case.store().due(9).await.unwrap().next, Some(later));
}

/// A schedule without another slot is not waited for, and not due before the end of time.
async fn what_never_comes_is_no_moment(case: &Case) {
    case.schedule(hourly("s", Timestamp::MAX)).await;
    let due = case.store().due(9).await.unwrap();
    assert_eq!((due.schedules, due.next), (vec![], None));
}

/// I14: who fires second is told that another was first.
async fn a_slot_is_fired_once(case: &Case) {
    let slot = case.now();
    let set = case.schedule(hourly("s", slot)).await;
    case.pass(3);
    let submitted = case.store().fire(firing(&set, id(1)), None).await.unwrap();
    assert_eq!((submitted.len(), submitted[0].id, submitted[0].created), (1, id(1), true));
    let task = case.record(id(1)).await;
    let key = task.task.spec.key.clone().unwrap();
    let found = case.store().find(Name::default(), Name::kind(KIND).unwrap(), key.clone()).await.unwrap();
    assert_eq!(found, Some(id(1)), "the slot is the task's key");
    assert_eq!(task.history[0].actor.as_deref(), Some("schedule s"));
    let expected = Schedule {
        next_at: slot.plus(HOUR),
        last_at: Some(slot),
        last_task: Some(id(1)),
        fired: 1,
        updated_at: case.now(),
        ..set.clone()
    };
    assert_eq!(only(case).await, expected);
    assert_eq!(due(case, 9).await, Vec::<String>::new());
    let moved = Rejected::ScheduleMoved { name: "s".into(), next_at: slot.plus(HOUR) };
    for again in [id(1), id(2)] {
        assert_eq!(refused(case, firing(&set, again), None).await, Error::Rejected(moved.clone()));
    }
}

/// I14: the key is what makes it one, not who leads, nor what the schedule says about itself.
async fn a_slot_makes_one_task_even_if_it_is_fired_again(case: &Case) {
    let set = case.schedule(hourly("s", case.now())).await;
    case.store().fire(firing(&set, id(1)), None).await.unwrap();
    let back = NewSchedule { cron: "0 */1 * * *".into(), ..hourly("s", set.next_at) };
    let back = case.schedule(back).await;
    assert_eq!(back.next_at, set.next_at, "it was set back");
    let submitted = case.store().fire(firing(&back, id(2)), None).await.unwrap();
    assert_eq!((submitted[0].id, submitted[0].created), (id(1), false));
    let after = only(case).await;
    assert_eq!((after.fired, after.last_task), (1, Some(id(1))), "one task was made, and it is the last");
    assert_eq!(case.store().task(id(2)).await.unwrap(), None);
}

/// I14: one slot of each, though it is the same moment.
async fn two_schedules_have_their_own_slots(case: &Case) {
    let tenant = Name::namespace("tenant").unwrap();
    let a = case.schedule(hourly("a", case.now())).await;
    let b = case.schedule(hourly("b", case.now())).await;
    let c = case.schedule(NewSchedule { namespace: tenant.clone(), ..hourly("a", case.now()) }).await;
    for (n, schedule) in (1..).zip([a, b, c]) {
        let submitted = case.store().fire(firing(&schedule, id(n)), None).await.unwrap();
        assert_eq!((submitted[0].id, submitted[0].created), (id(n), true));
        assert_eq!(case.record(id(n)).await.task.spec.namespace, schedule.namespace);
    }
}

/// I15: not before it won, not after it lost; by hand at any time.
async fn a_leader_fires_in_its_term(case: &Case) {
    let set = case.schedule(hourly("s", case.now())).await;
    assert_eq!(refused(case, firing(&set, id(1)), Some(1)).await.code(), "not_leader");
    let leader = WorkerId::new("w").unwrap();
    let lease = Duration::from_secs(30);
    let term = case.store().campaign(leader.clone(), lease).await.unwrap().unwrap().term;
    for wrong in [term + 1, term - 1] {
        let error = refused(case, firing(&set, id(1)), Some(wrong)).await;
        assert_eq!(error, Error::Rejected(Rejected::NotLeader { term: wrong }));
    }
    case.store().fire(firing(&set, id(1)), Some(term)).await.unwrap();
    let set = only(case).await;
    case.pass(30);
    assert_eq!(refused(case, firing(&set, id(2)), Some(term)).await.code(), "not_leader", "it is over");
    case.store().fire(firing(&set, id(2)), None).await.unwrap();
}

/// By name, and nothing is submitted.
async fn an_unknown_schedule_is_not_fired(case: &Case) {
    let set = case.schedule(hourly("s", case.now())).await;
    let other = Firing { namespace: Name::namespace("tenant").unwrap(), ..firing(&set, id(1)) };
    let unknown = Rejected::UnknownSchedule { name: "s".into() };
    assert_eq!(refused(case, other, None).await, Error::Rejected(unknown.clone()));
    case.store().remove_schedule(set.namespace.clone(), set.name.clone()).await.unwrap();
    assert_eq!(refused(case, firing(&set, id(1)), None).await, Error::Rejected(unknown));
}

/// 0.6, 0.14: one task that is refused, and neither the others nor the schedule move.
async fn a_firing_is_whole_or_nothing(case: &Case) {
    let taken = case.submit(case.task()).await;
    let set = case.schedule(hourly("s", case.now())).await;
    let mut double = firing(&set, id(1000));
    double.tasks.push(NewTask { id: taken, ..case.task() });
    let error = refused(case, double, None).await;
    let conflict = Rejected::IdConflict { task: taken };
    assert_eq!(error, Error::InBatch { index: 1, rejected: conflict.clone() });
    assert_eq!(refused(case, firing(&set, taken), None).await, Error::Rejected(conflict));
    let stranger = NewTask { require_entity: true, ..case.task_for("planner:1") };
    let unknown = Firing { tasks: vec![case.task(), stranger], ..firing(&set, id(1000)) };
    assert_eq!(refused(case, unknown.clone(), None).await.code(), "unknown_entity");
    case.store().set_entity(Name::default(), entity("planner:1"), true).await.unwrap();
    assert_eq!(case.store().fire(unknown, None).await.unwrap().len(), 2, "the same firing, later");
}

/// Limits: a firing is a batch.
async fn a_bad_firing_is_refused_before_anything_else(case: &Case) {
    let set = case.schedule(hourly("s", case.now())).await;
    let bad = NewTask { key: Some(String::new()), ..case.task() };
    let bad = Firing { tasks: vec![case.task(), bad], ..firing(&set, id(1000)) };
    assert!(matches!(refused(case, bad, Some(9)).await, Error::InBatch { index: 1, .. }));
    let tasks = std::iter::repeat_with(|| case.task()).take(limits::BATCH + 1).collect();
    let many = Firing { tasks, ..firing(&set, id(1000)) };
    assert_eq!(refused(case, many, None).await.code(), "invalid_task");
}

/// I14: each slot is a task of its own, in their order; the last is the one that is remembered.
async fn missed_slots_are_made_up_for_in_one_firing(case: &Case) {
    let set = case.schedule(hourly("s", case.now())).await;
    let slots = [set.next_at, set.next_at.plus(HOUR), set.next_at.plus(2 * HOUR)];
    let tasks = (1..).zip(slots).map(|(n, slot)| set.task(id(n), Some(slot))).collect();
    let next_at = slots[2].plus(HOUR);
    let made_up = Firing { next_at, last_at: Some(slots[2]), tasks, skipped: 4, ..firing(&set, id(1)) };
    case.pass(10_000);
    let submitted = case.store().fire(made_up, None).await.unwrap();
    assert_eq!(submitted.iter().map(|one| one.id).collect::<Vec<_>>(), [id(1), id(2), id(3)]);
    let after = only(case).await;
    assert_eq!((after.next_at, after.last_at, after.last_task), (next_at, Some(slots[2]), Some(id(3))));
    assert_eq!((after.fired, after.skipped), (3, 4));
    assert_eq!(ids(&case.claim(&case.worker("w").await, 9).await), [id(1), id(2), id(3)]);
}

/// A slot that a policy leaves out moves the schedule on and is counted.
async fn slots_may_be_left_out(case: &Case) {
    let set = case.schedule(hourly("s", case.now())).await;
    case.store().fire(firing(&set, id(1)), None).await.unwrap();
    let fired = only(case).await;
    let out = Firing { tasks: Vec::new(), last_at: None, skipped: 1, ..firing(&fired, id(2)) };
    case.pass(3600);
    assert_eq!(case.store().fire(out, None).await.unwrap(), []);
    let expected =
        Schedule { next_at: fired.next_at.plus(HOUR), skipped: 1, updated_at: case.now(), ..fired };
    assert_eq!(only(case).await, expected);
}

/// A run now, beside the slots: as often as somebody likes.
async fn a_run_by_hand_moves_nothing(case: &Case) {
    let set = case.schedule(hourly("s", case.now().plus(HOUR))).await;
    for n in 1..=2 {
        let by_hand = Firing {
            next_at: set.next_at,
            last_at: None,
            tasks: vec![set.task(id(n), None)],
            ..firing(&set, id(n))
        };
        assert!(case.store().fire(by_hand, None).await.unwrap()[0].created);
        let expected = Schedule { last_task: Some(id(n)), fired: n, ..set.clone() };
        assert_eq!(only(case).await, expected);
    }
}

/// Why the last slot has no task.
async fn an_error_is_told_until_the_next_firing(case: &Case) {
    let set = case.schedule(hourly("s", case.now())).await;
    let error = Some("a\0b: entity \"planner:1\" is not known".into());
    let failed = Firing { tasks: Vec::new(), last_at: None, error, ..firing(&set, id(1)) };
    case.store().fire(failed, None).await.unwrap();
    let told = only(case).await;
    assert_eq!(told.error.as_deref(), Some("a\u{fffd}b: entity \"planner:1\" is not known"));
    assert_eq!(case.schedule(hourly("s", case.now())).await.error, told.error, "setting it is no run");
    case.store().fire(firing(&told, id(1)), None).await.unwrap();
    assert_eq!(only(case).await.error, None);
}

/// 0.8: with overlap `queue` the runs of a schedule share a lane of one.
async fn a_queued_run_waits_for_the_one_before(case: &Case) {
    let worker = case.worker("w").await;
    for n in 1..=2 {
        let set = case.schedule(NewSchedule { overlap: Overlap::Queue, ..hourly("s", case.now()) }).await;
        case.store().fire(firing(&set, id(n)), None).await.unwrap();
    }
    let other = case.schedule(NewSchedule { overlap: Overlap::Queue, ..hourly("other", case.now()) }).await;
    case.store().fire(firing(&other, id(3)), None).await.unwrap();
    let claimed = case.claim(&worker, 9).await;
    assert_eq!(ids(&claimed), [id(1), id(3)]);
    case.complete(&claimed[0]).await;
    assert_eq!(ids(&case.claim(&worker, 9).await), [id(2)]);
}

/// A pause keeps time from firing it, not people.
async fn a_paused_schedule_can_be_fired_by_hand(case: &Case) {
    let set = case.schedule(NewSchedule { paused: Some(true), ..hourly("s", case.now()) }).await;
    let by_hand = Firing { next_at: set.next_at, last_at: None, ..firing(&set, id(1)) };
    case.store().fire(by_hand, None).await.unwrap();
    let after = only(case).await;
    assert_eq!((after.paused, after.fired, after.next_at), (true, 1, set.next_at));
}

/// I19: a leader that read the schedule before it was paused does not fire it after.
async fn no_slot_is_fired_after_a_pause(case: &Case) {
    let read = case.schedule(hourly("s", case.now())).await;
    case.schedule(NewSchedule { paused: Some(true), ..hourly("s", case.now()) }).await;
    assert_eq!(refused(case, firing(&read, id(1)), None).await.code(), "schedule_moved");
    let left_out = Firing { tasks: vec![], skipped: 1, last_at: None, ..firing(&read, id(1)) };
    assert_eq!(refused(case, left_out, None).await.code(), "schedule_moved");
    assert_eq!((only(case).await.fired, only(case).await.skipped), (0, 0));
}

/// I1, I14: also what was fired, so that a slot before the crash is not fired after it.
async fn schedules_outlive_a_crash(case: &Case) {
    let a = case.schedule(hourly("a", case.now())).await;
    case.schedule(NewSchedule { paused: Some(true), ..hourly("b", case.now()) }).await;
    case.schedule(hourly("c", case.now())).await;
    case.store().fire(Firing { error: Some("e".into()), ..firing(&a, id(1)) }, None).await.unwrap();
    case.store().remove_schedule(Name::default(), Name::new("schedule", "c").unwrap()).await.unwrap();
    let before = case.snapshot().await;
    case.crash().await;
    assert_eq!(case.snapshot().await, before);
    assert_eq!(refused(case, firing(&a, id(2)), None).await.code(), "schedule_moved");
    let second = case.second().await;
    assert_eq!(second.schedules().await.unwrap(), all(case).await, "another process sees the same");
}

/// I14: sixteen at once, through two handles; one wins, and the slot has one task.
async fn one_slot_has_one_winner(case: &Case) {
    let handles = [case.store(), case.second().await];
    let set = case.schedule(hourly("s", case.now())).await;
    for round in 0..10 {
        let set = if round == 0 { set.clone() } else { only(case).await };
        let calls: Vec<_> = (0..16_u64)
            .map(|n| {
                let (store, firing) =
                    (handles[usize::from(n % 2 == 1)].clone(), firing(&set, id(100 * round + n)));
                tokio::spawn(async move { store.fire(firing, None).await })
            })
            .collect();
        let mut won = 0;
        for call in calls {
            match call.await.unwrap() {
                Ok(submitted) => won += submitted.len(),
                Err(error) => assert_eq!(error.code(), "schedule_moved"),
            }
        }
        assert_eq!(won, 1, "round {round}");
        assert_eq!(only(case).await.fired, round + 1);
    }
    let tasks: u64 = case.store().counts().await.unwrap().iter().map(|count| count.tasks).sum();
    assert_eq!(tasks, 10);
    let cancel = |n| Command::Cancel { task: n, by: windlass_core::By::default() };
    assert!(case.apply(cancel(only(case).await.last_task.unwrap())).await.unwrap().changed);
}
