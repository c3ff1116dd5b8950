//! The good run with one thing changed: each is caught, by the violation that names it and by no other.

use std::num::NonZeroU32;
use std::time::Duration;

use windlass_core::{Entry, Name, Reason, State, TaskId};

use super::run::{
    CANCELLED, DEAD, DELETED, ENTITY, EXPIRED, INNER, KEYED, KEYED_AGAIN, LANE, LATER, OUTER, PLAIN, PRESENT,
    PRUNED, REFUSED, RELEASED, REOPENED, RETRIED, Run, STOPPED, STRICT, UNHEARD, good, item, step,
};
use crate::conformance::checker::{Accepted, Answer, End, Ending, Op, Violation, What};
use crate::conformance::{id, workflow_id};

/// Each line: what is done to the good run, the one violation that must be found, and a word that it must
/// say: mostly the task.
macro_rules! mutations {
    ($($name:ident: $variant:ident about $about:expr, $mutate:expr;)+) => {$(
        #[test]
        fn $name() {
            let mut run = good().clone();
            let mutate: fn(&mut Run) = $mutate;
            mutate(&mut run);
            let found = run.check();
            let right = |one: &Violation| matches!(one, Violation::$variant { .. });
            assert!(found.len() == 1 && found.iter().all(right), "{}: {found:#?}", stringify!($variant));
            let (words, about) = (found[0].to_string(), $about.to_string());
            assert!(words.contains(&about), "{words:?} names {about}");
        }
    )+};
}

fn done(state: State) -> End {
    End::Ok(Answer::Done { changed: true, state })
}

fn accepted(n: u64, created: bool) -> End {
    End::Ok(Answer::Submitted(vec![Accepted { id: id(n), created }]))
}

fn finish(n: u64, lease: u32, ending: Ending) -> Op {
    Op::Finish { task: id(n), lease, ending }
}

/// Whether this starts a workflow.
fn starts(op: &Op, n: u64) -> bool {
    matches!(op, Op::Start { workflow, .. } if *workflow == workflow_id(n))
}

/// Whether a handler of this task begins.
fn begins(what: &What, wanted: TaskId) -> bool {
    matches!(what, What::HandlerStarted { task, .. } if *task == wanted)
}

/// Whether somebody asks for an end of this task.
fn ends(what: &What, wanted: TaskId) -> bool {
    matches!(what, What::Invoked { op: Op::Finish { task, .. }, .. } if *task == wanted)
}

/// The last entry.
fn last(history: &mut [Entry]) -> &mut Entry {
    history.last_mut().unwrap()
}

/// Another entry after `before`, a little later.
fn next(before: &Entry, to: State, reason: Reason) -> Entry {
    let at = before.at.plus(Duration::from_micros(1));
    Entry { seq: before.seq + 1, from: Some(before.to), to, at, reason, ..before.clone() }
}

fn push(history: &mut Vec<Entry>, to: State, reason: Reason) {
    history.push(next(&history[history.len() - 1], to, reason));
}

/// Two tasks that were handled alike change places in time; not in the order of submission.
fn swap_times(run: &mut Run, one: u64, other: u64) {
    let times =
        |run: &mut Run, n| -> Vec<_> { run.record(n).history[1..].iter().map(|entry| entry.at).collect() };
    let (first, second) = (times(run, one), times(run, other));
    for (n, times) in [(one, second), (other, first)] {
        run.rewrite(n, |history| {
            history[1..].iter_mut().zip(times).for_each(|(entry, at)| entry.at = at);
        });
    }
}

mutations! {
    an_accepted_task_is_gone: Lost about id(PLAIN), |run| run.remove(PLAIN);
    a_task_that_was_not_deleted_is_gone: Lost about id(DELETED), |run| {
        let delete = run.find(|op| matches!(op, Op::Delete { .. }));
        run.end(delete, End::Failed("not final".into()));
    };
    more_were_pruned_than_was_said: Overpruned about 2, |run| {
        let prune = run.find(|op| *op == Op::Prune);
        run.end(prune, End::Ok(Answer::Pruned(1)));
    };
    a_task_with_a_key_is_gone: Lost about id(KEYED), |run| run.remove(KEYED);
    a_prune_that_failed_removed_something: Lost about id(PRUNED[0]), |run| {
        // Of the two, one is explained by a delete.
        let prune = run.find(|op| *op == Op::Prune);
        run.end(prune, End::Failed("the disk is full".into()));
        run.log_op("client", Op::Delete { task: id(PRUNED[1]) }, done(State::Completed));
    };

    a_task_came_from_nowhere: Invented about id(99), |run| run.log_handler(id(99), 1, 1);
    a_refused_task_ran: Invented about id(REFUSED), |run| run.log_handler(id(REFUSED), 1, 1);
    a_refused_task_is_there: Invented about id(PRESENT), |run| {
        let submit = run.find_submit(PRESENT);
        run.end(submit, End::Failed("the disk is full".into()));
        let ran = |what: &What| match what {
            What::HandlerStarted { task, .. } | What::HandlerEnded { task, .. } => *task == id(PRESENT),
            _ => false,
        };
        run.events.retain(|event| !ran(&event.what));
    };
    a_task_is_left_behind: Unfinished about id(CANCELLED), |run| {
        run.rewrite(CANCELLED, |history| history.truncate(1));
    };
    a_task_is_held_for_ever: Unfinished about id(UNHEARD), |run| {
        run.rewrite(UNHEARD, |history| history.truncate(history.len() - 1));
    };

    a_dead_worker_s_finish_counted_too: Doubled about id(EXPIRED), |run| {
        let finish = run.find_finish(EXPIRED, 1);
        run.end(finish, done(State::Completed));
    };
    one_lease_made_the_same_change_twice: Doubled about id(PLAIN), |run| {
        run.log_op("alpha", finish(PLAIN, 1, Ending::Completed), done(State::Completed));
    };
    a_deleted_task_was_completed_twice: Doubled about id(DELETED), |run| {
        run.log_op("beta", finish(DELETED, 2, Ending::Completed), done(State::Completed));
    };
    one_life_ended_twice: EndedTwice about id(PLAIN), |run| {
        run.rewrite(PLAIN, |history| push(history, State::Failed, Reason::Failed));
    };
    one_lease_finished_in_two_ways: Contradiction about id(PLAIN), |run| {
        run.log_op("alpha", finish(PLAIN, 1, Ending::Failed), done(State::Failed));
    };
    a_completion_was_overwritten: FinishLost about id(PLAIN), |run| {
        run.rewrite(PLAIN, |history| {
            (last(history).to, last(history).reason) = (State::Failed, Reason::Failed);
        });
    };
    a_completion_was_rolled_back: FinishLost about id(DEAD), |run| {
        // The last claim failed instead, and an operator settled it.
        run.rewrite(DEAD, |history| {
            (last(history).to, last(history).reason) = (State::DeadLetter, Reason::Failed);
            push(history, State::ResolvedManually, Reason::Resolved);
        });
    };
    a_zombie_was_believed: Zombie about id(RELEASED), |run| {
        run.log_op("alpha", finish(RELEASED, 1, Ending::Failed), done(State::WaitingForRetry));
    };
    a_zombie_was_told_that_it_had_finished: Zombie about id(EXPIRED), |run| {
        let repeated = Answer::Done { changed: false, state: State::Pending };
        run.log_op("gamma", finish(EXPIRED, 1, Ending::Snoozed), End::Ok(repeated));
    };
    a_refused_finish_was_done: RefusedButDone about id(UNHEARD), |run| {
        let finish = run.find_finish(UNHEARD, 1);
        run.end(finish, End::Failed("the store is unavailable".into()));
    };
    a_completed_task_ran_again: HandedOutAfterFinish about id(PLAIN), |run| run.log_handler(id(PLAIN), 2, 2);
    a_deleted_task_ran_again: HandedOutAfterFinish about id(DELETED), |run| {
        run.log_handler(id(DELETED), 2, 2);
    };
    a_completed_task_was_claimed: HandedOutAfterFinish about id(UNHEARD), |run| {
        run.rewrite(UNHEARD, |history| push(history, State::Claimed, Reason::Claimed));
    };
    a_held_task_was_claimed: TwoHolders about id(UNHEARD), |run| {
        run.rewrite(UNHEARD, |history| {
            let again = next(&history[1], State::Claimed, Reason::Claimed);
            history.insert(2, again);
        });
    };

    two_of_an_entity_at_once: LaneOverfull about id(ENTITY[1]), |run| {
        let busy = run.record(ENTITY[0]).history[1].at.plus(Duration::from_micros(1));
        run.rewrite(ENTITY[1], |history| history[1].at = busy);
    };
    two_of_an_entity_when_a_worker_was_slow: LaneOverfull about id(ENTITY[2]), |run| {
        // The one before ends after this one's claim.
        let claimed = run.record(ENTITY[2]).history[1].at.plus(Duration::from_micros(1));
        run.rewrite(ENTITY[0], |history| last(history).at = claimed);
    };
    three_in_a_lane_of_two: LaneOverfull about id(LANE[2]), |run| {
        let busy = run.record(LANE[1]).history[1].at.plus(Duration::from_micros(1));
        run.rewrite(LANE[2], |history| history[1].at = busy);
    };
    a_strict_lane_was_entered_during_a_wait: LaneOverfull about id(STRICT[1]), |run| {
        let waiting = run.record(STRICT[0]).history.iter().find(|entry| entry.to == State::WaitingForRetry);
        let waiting = waiting.unwrap().at;
        run.rewrite(STRICT[1], |history| {
            for (micros, entry) in (1..).zip(&mut history[1..]) {
                entry.at = waiting.plus(Duration::from_micros(micros));
            }
        });
    };
    an_entity_s_tasks_were_mixed_up: OutOfOrder about id(ENTITY[2]), |run| {
        swap_times(run, ENTITY[1], ENTITY[2]);
    };
    a_due_task_was_passed_over: OutOfOrder about id(LATER[1]), |run| {
        // As if it had been due before the other was submitted.
        run.rewrite(LATER[0], |history| history[0].to = State::Pending);
        run.rewrite(LATER[0], |history| drop(history.remove(1)));
    };
    a_lane_of_two_let_the_last_one_pass: OutOfOrder about id(LANE[2]), |run| {
        let first = run.record(LANE[0]).history[1].at;
        let pass = first.minus(Duration::from_micros(9));
        run.rewrite(LANE[2], |history| {
            for (micros, entry) in (1..).zip(&mut history[1..]) {
                entry.at = pass.plus(Duration::from_micros(micros));
            }
        });
    };

    a_key_was_created_twice: CreatedTwice about id(KEYED), |run| {
        let again = run.find_submit(KEYED_AGAIN);
        run.end(again, accepted(KEYED, true));
    };
    a_key_was_answered_with_two_ids: TwoIds about id(KEYED), |run| {
        let again = run.find_submit(KEYED_AGAIN);
        run.end(again, accepted(PLAIN, false));
    };
    two_rows_have_one_key: TwoIds about id(KEYED), |run| {
        run.record(PRESENT).task.spec.key = Some("k".into());
    };
    a_key_was_created_by_nobody: NeverCreated about id(KEYED), |run| {
        let first = run.find_submit(KEYED);
        run.end(first, accepted(KEYED, false));
    };
    a_task_became_another: Altered about id(PLAIN), |run| {
        run.record(PLAIN).task.spec.kind = Name::kind("mail:send").unwrap();
    };
    a_handler_was_told_another_attempt: Altered about id(RETRIED), |run| {
        for event in &mut run.events {
            if let What::HandlerStarted { task, lease: 2, attempt, .. } = &mut event.what
                && *task == id(RETRIED)
            {
                *attempt = 1;
            }
        }
    };
    a_handler_was_told_another_entity: Altered about id(ENTITY[0]), |run| {
        for event in &mut run.events {
            if let What::HandlerStarted { task, lease: 2, entity, .. } = &mut event.what
                && *task == id(ENTITY[0])
            {
                *entity = Some("planner:9".into());
            }
        }
    };

    an_entry_is_missing: HistoryFault about id(PLAIN), |run| drop(run.record(PLAIN).history.remove(1));
    time_goes_back: HistoryFault about id(PLAIN), |run| {
        let submitted = run.record(PLAIN).history[0].at;
        run.rewrite(PLAIN, |history| history[2].at = submitted);
    };
    an_arrow_is_illegal: HistoryFault about id(RETRIED), |run| {
        run.rewrite(RETRIED, |history| drop(history.remove(4)));
    };
    a_history_is_empty: HistoryFault about id(CANCELLED), |run| run.record(CANCELLED).history.clear();
    an_end_is_left_without_an_operator: HistoryFault about id(CANCELLED), |run| {
        run.rewrite(CANCELLED, |history| push(history, State::Pending, Reason::Due));
    };
    a_row_disagrees_with_its_history: Unfolded about id(PLAIN), |run| {
        run.record(PLAIN).task.status.state = State::Failed;
    };
    a_row_has_another_lease: Unfolded about id(PLAIN), |run| run.record(PLAIN).task.status.lease = 7;

    more_attempts_than_allowed: TooManyAttempts about id(RETRIED), |run| {
        run.record(RETRIED).task.spec.max_attempts = NonZeroU32::new(1);
    };
    a_crash_was_not_counted: Miscounted about id(EXPIRED), |run| run.record(EXPIRED).task.status.attempt = 1;
    a_lease_was_never_given: NeverClaimed about id(CANCELLED), |run| run.log_handler(id(CANCELLED), 1, 1);
    a_finish_of_a_lease_that_was_never_given: NeverClaimed about id(RELEASED), |run| {
        run.log_op("alpha", finish(RELEASED, 9, Ending::Snoozed), done(State::Scheduled));
    };
    two_workers_had_one_lease: StartedTwice about id(PLAIN), |run| run.log_handler(id(PLAIN), 1, 1);

    a_cancel_was_forgotten: CancelLost about id(REOPENED), |run| {
        run.rewrite(REOPENED, |history| drop(history.drain(1..3)));
    };
    a_cancel_of_what_had_ended_was_accepted: CancelLost about id(PLAIN), |run| {
        let answer = Answer::Done { changed: false, state: State::Completed };
        run.log_op("client", Op::Cancel { task: id(PLAIN) }, End::Ok(answer));
    };
    a_cancelled_task_ran: StartedAfterCancel about id(REOPENED), |run| {
        run.rewrite(REOPENED, |history| history[2].reason = Reason::Due);
    };

    a_workflow_is_gone: WorkflowLost about workflow_id(OUTER), |run| {
        run.workflows.retain(|record| record.workflow.id != workflow_id(OUTER));
    };
    a_step_is_gone: Lost about step('g'), |run| run.records.retain(|record| record.task.id != step('g'));
    a_refused_workflow_is_there: WorkflowInvented about workflow_id(STOPPED), |run| {
        let start = run.find(|op| starts(op, STOPPED));
        run.end(start, End::Failed("the disk is full".into()));
    };
    a_workflow_was_created_twice: WorkflowCreatedTwice about workflow_id(OUTER), |run| {
        let workflow = workflow_id(OUTER);
        let answer = Answer::Started { workflow, created: true };
        run.log_op("beta", Op::Start { workflow, parent: None }, End::Ok(answer));
    };
    a_step_was_begun_before_its_parent_had_ended: BegunEarly about step('e'), |run| {
        run.move_before(|what| begins(what, step('e')), |what| ends(what, workflow_id(INNER).step(1)));
    };
    a_step_was_begun_before_all_items_had_ended: BegunEarly about step('d'), |run| {
        let nests = |what: &What| matches!(what, What::Invoked { op, .. } if starts(op, INNER));
        let last = |what: &What| ends(what, item(0)) && matches!(what, What::Invoked { op: Op::Finish { lease: 2, .. }, .. });
        run.move_before(nests, last);
    };
    a_step_was_begun_before_its_parent_had_no_items: BegunEarly about step('i'), |run| {
        run.move_before(|what| begins(what, step('i')), |what| ends(what, step('h')));
    };
    an_item_was_begun_before_the_parents_of_its_step_had_ended: BegunEarly about step('c'), |run| {
        run.move_before(|what| begins(what, item(1)), |what| ends(what, step('a')));
    };
    a_step_that_wants_all_over_was_begun_too_early: BegunEarly about step('g'), |run| {
        run.move_before(|what| begins(what, step('g')), |what| ends(what, step('e')));
    };
    a_skipped_step_ran: RanThoughSkipped about step('b'), |run| run.log_handler(step('b'), 1, 1);
    a_step_ran_that_nobody_could_need: NeverClaimed about step('f'), |run| run.log_handler(step('f'), 1, 1);
    a_step_of_no_workflow_ran: Invented about workflow_id(99).step(0), |run| {
        run.log_handler(workflow_id(99).step(0), 1, 1);
    };
    a_step_has_no_workflow: Children about step('d'), |run| {
        let inner = run.workflows.iter_mut().find(|record| record.workflow.id == workflow_id(INNER));
        inner.unwrap().workflow.parent = None;
    };

    an_answer_came_without_a_question: BadLog about "alpha", |run| {
        run.log("alpha", What::Ended { number: 12345, end: End::Unknown });
    };
    an_answer_came_twice: BadLog about "alpha", |run| {
        let (who, number) = run.find_finish(PLAIN, 1);
        run.log(&who, What::Ended { number, end: done(State::Completed) });
    };
    an_answer_belongs_to_another_question: BadLog about "client", |run| {
        run.log_op("client", Op::Cancel { task: id(PLAIN) }, End::Ok(Answer::Pruned(1)));
    };
    a_handler_ended_that_never_began: BadLog about "beta", |run| {
        run.log("beta", What::HandlerEnded { task: id(PLAIN), lease: 5 });
    };
}
