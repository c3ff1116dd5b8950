//! The crash sweep: die before and after every write of every operation, and find all of it or nothing.
//!
//! Nothing is really killed. At each point the file and its log are copied, which is exactly what a process
//! killed there leaves behind (the `-shm` file is rebuilt from the log). Copying closes a descriptor of the
//! file and so drops its locks in this process; no other process looks at it here.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, missing_docs)]

mod support;
#[path = "support/world.rs"]
mod world;

use std::num::NonZeroU32;
use std::time::Duration;

use support::{file, rows, runtime};
use windlass_core::{
    By, Command, Firing, Json, Lane, Name, NewSchedule, NewTask, Outcome, Retention, Start, State, WorkerId,
};
use windlass_store::conformance::{
    START, claim_of, completed, details, entity, failed, failed_for_good, finish, hourly, invariants, report,
    token,
};
use windlass_store::sqlite::Options;
use windlass_store::{Error, Store, Turn, Writes};
use world::{ON_PURPOSE, Op, World, in_lane, log};

fn once(task: &mut NewTask) {
    task.max_attempts = NonZeroU32::new(1);
}

/// I1, I9, I20 for submits: single, batch, keyed, for an entity, in a lane, delayed, and larger than the page
/// cache.
#[test]
fn a_submit_that_dies_anywhere_is_whole_or_absent() {
    runtime().block_on(async {
        let world = &mut World::new().await;
        let new = world.task();
        world.sweep("submit", Op::Submit(vec![new])).await;
        let batch = (0..5).map(|_| world.task()).collect();
        world.sweep("submit a batch", Op::Submit(batch)).await;
        let keyed = NewTask { key: Some("k".into()), ..world.task() };
        world.sweep("submit with a key", Op::Submit(vec![keyed.clone()])).await;
        let again = vec![NewTask { id: world.task().id, ..keyed }, world.task()];
        world.sweep("submit the key again beside another", Op::Submit(again)).await;
        let planner = Lane::of(&entity("planner:42"));
        for what in ["submit for a free entity", "submit for a busy entity"] {
            let new = NewTask { lane: Some(planner.clone()), ..world.task() };
            world.sweep(what, Op::Submit(vec![new])).await;
        }
        let lane = Lane::new("two", 2).unwrap();
        let three = (0..3).map(|_| NewTask { lane: Some(lane.clone()), ..world.task() }).collect();
        world.sweep("submit three to a lane of two", Op::Submit(three)).await;
        let later = NewTask { start: Start::After(Duration::from_secs(60)), ..world.task() };
        world.sweep("submit for later", Op::Submit(vec![later])).await;
        // 40 MiB do not fit into the writer's cache, so pages reach the log long before the commit.
        let large = Json::payload(&format!("\"{}\"", "x".repeat(1_000_000))).unwrap();
        let large = (0..40).map(|_| NewTask { payload: large.clone(), ..world.task() }).collect();
        world.sweep_some("submit more than the cache holds", Op::Submit(large), Some(75)).await;
        println!("{} crash points of submits", world.points);
        assert!(world.points >= 140, "only {} points were visited", world.points);
    });
}

/// I3, I4, I7, I9, I13, I20 for a worker's turn: claims, every outcome, releases, and the next in the lane.
#[test]
fn a_worker_s_turn_that_dies_anywhere_is_whole_or_absent() {
    runtime().block_on(async {
        let world = &mut World::new().await;
        let worker = world.worker.clone();
        let few = (0..3).map(|_| world.task()).collect();
        world.do_it(Op::Submit(few)).await;
        world.sweep("claim", Op::claim(&worker, 1)).await;
        world.sweep("claim several", Op::claim(&worker, 9)).await;
        let named = world.task();
        let by_name = Op::apply(Command::Claim { task: named.id, worker: worker.clone() });
        world.submit(named).await;
        world.sweep("claim by name", by_name).await;

        let held = world.claimed(|_| {}).await;
        world.sweep("start", Op::apply(Command::Start { token: token(&held), at: None })).await;
        world.sweep("report", Op::apply(report(&held, details("[1]")))).await;
        world.sweep("report more", Op::apply(report(&held, details("[1,2]")))).await;
        world.pass(1);
        world.sweep("complete what runs", Op::apply(finish(&held, completed("[1]")))).await;
        let outcomes = [
            ("complete", completed("{}")),
            ("fail", failed("no answer")),
            ("fail for good", failed_for_good("no such account")),
            ("snooze", Outcome::Snoozed { delay: Duration::from_secs(5) }),
            ("give up", Outcome::Cancelled { note: "not needed".into() }),
        ];
        for (what, outcome) in outcomes {
            let held = world.claimed(|_| {}).await;
            world.sweep(what, Op::apply(finish(&held, outcome))).await;
        }
        let held = world.claimed(once).await;
        world.sweep("fail the last attempt", Op::apply(finish(&held, failed("no answer")))).await;
        let held = world.claimed(|_| {}).await;
        let release = Command::Release { token: token(&held), note: Some("shutdown".into()) };
        world.sweep("release", Op::apply(release)).await;
        world.do_it(Op::claim(&worker, 9)).await;
        let held = world.claimed(|_| {}).await;
        let commands = vec![report(&held, details("[1]")), finish(&held, completed("1"))];
        world.sweep("report and complete", Op::Turn(Turn { commands, ..Turn::default() })).await;
        let commands = vec![Command::Delete { task: held.task.id }];
        world.sweep("delete it with its notes", Op::Turn(Turn { commands, ..Turn::default() })).await;

        let planner = Lane::of(&entity("planner:1"));
        let first = world.claimed(in_lane(planner.clone())).await;
        let second = NewTask { lane: Some(planner), ..world.task() };
        let second = world.submit(second).await;
        world.sweep("finish and let the next in", Op::apply(finish(&first, completed("1")))).await;
        let second = world.take(second).await;
        let waiting = world.task();
        world.submit(waiting).await;
        let turn = Turn {
            commands: vec![finish(&second, completed("2"))],
            claim: Some(claim_of(&worker, 1)),
            term: None,
        };
        world.sweep("finish one and claim the next", Op::Turn(turn)).await;
        println!("{} crash points of turns", world.points);
        assert!(world.points >= 190, "only {} points were visited", world.points);
    });
}

/// I9, I13, I19, I20 for operators and the leader: cancel, retry, resolve, promote, expire, delete, prune.
#[test]
fn an_intervention_that_dies_anywhere_is_whole_or_absent() {
    runtime().block_on(async {
        let world = &mut World::new().await;
        let by = By { actor: Some("ada".into()), note: Some("because".into()) };
        let pending = world.task();
        let pending = world.submit(pending).await;
        world.sweep("cancel", Op::apply(Command::Cancel { task: pending, by: by.clone() })).await;
        let running = world.claimed(in_lane(Lane::of(&entity("planner:1")))).await.task.id;
        world.sweep("cancel what runs", Op::apply(Command::Cancel { task: running, by: by.clone() })).await;

        let retry = |task, force| Op::apply(Command::Retry { task, force, by: by.clone() });
        let held = world.claimed(|_| {}).await;
        world.do_it(Op::apply(finish(&held, failed_for_good("broken")))).await;
        world.sweep("retry", retry(held.task.id, false)).await;
        world.do_it(Op::apply(Command::Cancel { task: held.task.id, by: by.clone() })).await;
        let dead = world.claimed(once).await;
        world.do_it(Op::apply(finish(&dead, failed("broken")))).await;
        world.sweep("reopen", retry(dead.task.id, true)).await;
        let result = Some(Json::result("[true]").unwrap());
        let resolve = Command::Resolve { task: dead.task.id, result, by: by.clone() };
        world.sweep("resolve", Op::apply(resolve)).await;

        let held = world.claimed(|_| {}).await;
        world.do_it(Op::apply(finish(&held, failed("later")))).await;
        let orphan = world.claimed(|_| {}).await.task;
        let unstarted = world.claimed(once).await.task;
        let last = world.claimed(once).await;
        world.do_it(Op::apply(Command::Start { token: token(&last), at: None })).await;
        let last = last.task;
        let delayed = NewTask { start: Start::After(Duration::from_secs(60)), ..world.task() };
        let delayed = world.submit(delayed).await;
        world.pass(3600);
        world.sweep("promote what was delayed", Op::apply(Command::Promote { task: delayed })).await;
        world.sweep("promote what failed", Op::apply(Command::Promote { task: held.task.id })).await;
        let expire = |task: &windlass_core::Task| Command::Expire { task: task.id, lease: task.status.lease };
        world.sweep("expire", Op::apply(expire(&orphan))).await;
        world.sweep("expire the last attempt", Op::apply(expire(&last))).await;
        world.sweep("expire what never started", Op::apply(expire(&unstarted))).await;

        world.sweep("delete", Op::apply(Command::Delete { task: last.id })).await;
        world.pass(3600);
        let retention = Retention::default().keep(State::Cancelled, Duration::from_secs(60)).unwrap();
        let retention = retention.keep(State::ResolvedManually, Duration::from_secs(60)).unwrap();
        world.sweep("prune", Op::Prune(retention)).await;
        println!("{} crash points of interventions", world.points);
        assert!(world.points >= 105, "only {} points were visited", world.points);
    });
}

/// I15 and the settings: workers, the leader, paused queues, known entities, and the leader's own turn.
#[test]
fn a_change_of_the_fleet_that_dies_anywhere_is_whole_or_absent() {
    runtime().block_on(async {
        let world = &mut World::new().await;
        let worker = world.worker.clone();
        world.sweep("register", Op::Register(support::new_worker("another"))).await;
        world.pass(1);
        world.sweep("register again", Op::Register(support::new_worker("another"))).await;
        world.pass(1);
        world.sweep("heartbeat", Op::Heartbeat(worker.clone())).await;
        world.sweep("deregister", Op::Deregister(WorkerId::new("another").unwrap())).await;
        world.sweep("campaign", Op::Campaign(worker.clone())).await;
        world.pass(1);
        world.sweep("renew", Op::Campaign(worker.clone())).await;
        let held = world.claimed(|_| {}).await.task;
        let cancel = Command::Cancel { task: held.id, by: By::default() };
        let turn = Turn { commands: vec![cancel], claim: None, term: Some(1) };
        world.sweep("a leader's turn", Op::Turn(turn)).await;
        world.sweep("resign", Op::Resign(worker, 1)).await;
        world.sweep("pause", Op::Pause(true)).await;
        world.sweep("resume", Op::Pause(false)).await;
        world.sweep("know an entity", Op::Know(entity("planner:7"), true)).await;
        world.sweep("forget an entity", Op::Know(entity("planner:7"), false)).await;
        println!("{} crash points of the fleet", world.points);
        assert!(world.points >= 50, "only {} points were visited", world.points);
    });
}

/// I14 for schedules: set, changed, fired for one slot and for several, left out, and removed.
#[test]
fn a_schedule_that_dies_anywhere_is_whole_or_absent() {
    runtime().block_on(async {
        let world = &mut World::new().await;
        world.sweep("set a schedule", Op::schedule(hourly("s", START))).await;
        world.pass(1);
        let paused = NewSchedule { paused: Some(true), ..hourly("s", START) };
        world.sweep("pause it", Op::schedule(paused)).await;
        let resumed = NewSchedule { paused: Some(false), ..hourly("s", START) };
        world.sweep("resume it", Op::schedule(resumed)).await;
        let slot = world.slot().await;
        world.sweep("fire a slot", Op::Fire(slot)).await;
        let mut slots = world.slot().await;
        let lane = Some(Lane::of(&entity("planner:1")));
        slots.tasks.extend((0..2).map(|_| NewTask { lane: lane.clone(), ..world.task() }));
        world.sweep("fire several slots", Op::Fire(slots)).await;
        let out = Firing { tasks: Vec::new(), skipped: 2, ..world.slot().await };
        world.sweep("leave slots out", Op::Fire(out)).await;
        world.sweep("remove it", Op::Unschedule(Name::new("schedule", "s").unwrap())).await;
        println!("{} crash points of schedules", world.points);
        assert!(world.points >= 60, "only {} points were visited", world.points);
    });
}

/// I1, I18: one commit for many callers is one all-or-nothing, and who is refused in the middle changes
/// nothing.
#[test]
fn a_group_that_dies_anywhere_is_whole_or_absent() {
    runtime().block_on(async {
        let world = &mut World::new().await;
        let mut crowd = world.crowd().await;
        let Op::Submit(taken) = crowd[0].clone() else { panic!("the crowd begins with a submit") };
        crowd.insert(4, Op::Submit(vec![world.task(), taken[0].clone()]));
        world.film(None);
        let answers = world.group(crowd, None).await;
        let refused: Vec<usize> = (0..answers.len()).filter(|n| answers[*n].is_err()).collect();
        assert_eq!(refused, [4], "who asked for a taken id is refused alone: {answers:?}");
        let corpses = world.corpses();
        let after = world.rows();
        let mut commits = 0;
        let mut found = None;
        for corpse in &corpses {
            commits += usize::from(corpse.is_committed());
            match commits {
                0 => continue,
                1 => {}
                2 => found = Some(after.clone()),
                _ => panic!("the group was more than one transaction"),
            }
            // The first caller's commit is where the group begins.
            let found = found.get_or_insert_with(|| {
                drop(support::open(&corpse.path));
                rows(&corpse.path)
            });
            let found = found.clone();
            let what = format!("a group of callers, {}", corpse.died());
            world.autopsy(&what, corpse, &found, None).await;
        }
        assert_eq!(commits, 2, "one commit for the first caller, one for all others");
        println!("{} crash points of a group", world.points);
        assert!(world.points >= 95, "only {} points were visited", world.points);
    });
}

/// A log that a power cut tore, or that rotted, gives the state before the torn commit: never a part of it.
#[test]
fn a_torn_log_gives_the_state_before() {
    runtime().block_on(async {
        let world = &mut World::new().await;
        let held = world.claimed(|_| {}).await;
        let batch = (0..5).map(|_| world.task()).collect();
        tear(world, "a submit", Op::Submit(batch), 997).await;
        tear(world, "a report", Op::apply(report(&held, details("[1]"))), 997).await;
        tear(world, "a schedule", Op::schedule(hourly("s", START)), 997).await;
        let slot = world.slot().await;
        tear(world, "a fired slot", Op::Fire(slot), 997).await;
        println!("{} torn logs", world.points);
        assert!(world.points >= 300, "only {} cuts were made", world.points);
    });
}

/// Does `op`, and looks at what is there if its part of the log was torn, or had rotted, at every so many
/// bytes.
async fn tear(world: &mut World, what: &str, op: Op, every: usize) {
    let (before, start) = (world.rows(), std::fs::metadata(log(&file(&world.directory))).unwrap().len());
    world.do_it(op).await;
    let whole = std::fs::read(log(&file(&world.directory))).unwrap();
    let (start, end) = (usize::try_from(start).unwrap(), whole.len());
    assert!(start < end, "the log grew by {start}..{end} with {what}");
    for cut in (start..end).step_by(every) {
        for rotten in [false, true] {
            world.film(None);
            world.camera.lock().unwrap().look(&file(&world.directory), "power cut", true);
            let corpse = world.corpses().remove(0);
            let mut torn = whole.clone();
            if rotten {
                torn[cut] ^= 1;
            } else {
                torn.truncate(cut);
            }
            std::fs::write(log(&corpse.path), torn).unwrap();
            let what = format!("{what} torn at {cut} of {end}, rotten: {rotten}");
            world.autopsy(&what, &corpse, &before, None).await;
        }
    }
}

/// Planned panics are not printed.
fn keep_quiet() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload_as_str() != Some(ON_PURPOSE) {
            print(panic);
        }
    }));
}

/// I18: a panic at any point of one caller's work gives that caller an error and undoes that work alone; its
/// neighbours in the same transaction are acknowledged, the store goes on, and the file is as if that caller
/// had never come.
#[test]
fn a_panic_in_one_caller_s_work_harms_nobody_else() {
    keep_quiet();
    runtime().block_on(async {
        let mut without = Vec::new();
        for absent in 0.. {
            let world = &mut World::new().await;
            let mut crowd = world.crowd().await;
            if absent == crowd.len() {
                break;
            }
            crowd.remove(absent);
            for answer in world.group(crowd, None).await {
                answer.unwrap();
            }
            without.push(world.rows());
        }
        let mut struck = vec![0; without.len()];
        for point in 0.. {
            let world = &mut World::new().await;
            let crowd = world.crowd().await;
            let answers = world.group(crowd, Some(point)).await;
            let victims: Vec<usize> = (0..answers.len()).filter(|n| answers[*n].is_err()).collect();
            let [victim] = victims[..] else {
                assert!(victims.is_empty(), "at point {point} several callers were hurt: {answers:?}");
                break;
            };
            let error = answers[victim].clone().unwrap_err();
            assert!(matches!(&error, Error::Unavailable(why) if why.contains("undone")), "{error}");
            assert!(world.rows() == without[victim], "point {point}: as if caller {victim} had not come");
            invariants::check(&*world.store, &*world.clock).await;
            let next = world.task();
            world.submit(next).await;
            struck[victim] += 1;
        }
        println!("{} points of {} callers panicked", struck.iter().sum::<usize>(), struck.len());
        assert!(struck.iter().all(|points| *points >= 2), "every caller was struck: {struck:?}");
    });
}

/// A panic between the callers' work and the commit belongs to nobody: all are told, nothing was changed, no
/// later call hangs, and the file can be opened again.
#[test]
fn a_panic_before_the_commit_changes_nothing() {
    keep_quiet();
    for fatal in ["add_count", "set_sequence", "commit"] {
        runtime().block_on(async {
            let directory = support::place();
            drop(support::open(&file(&directory)));
            let before = rows(&file(&directory));
            let probe = move |statement: &'static str, before: bool| {
                assert!(!(statement == fatal && before), "{ON_PURPOSE}");
            };
            let store = Options::new(file(&directory)).probe(probe).open().unwrap();
            store.submit(vec![support::task(1)]).await.expect_err("it was not committed");
            store.submit(vec![support::task(2)]).await.expect_err("the writer is gone, or panics again");
            store.close().await.unwrap();
            assert_eq!(rows(&file(&directory)), before, "{fatal}: nothing was changed");
            let store = support::open(&file(&directory));
            store.submit(vec![support::task(1)]).await.expect("the file can be opened again");
        });
    }
}
