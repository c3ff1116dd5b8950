//! Runs in which nothing is wrong, small and large.

use std::time::{Duration, Instant};

use windlass_core::{Attempt, Lane, Reason, State, Timestamp, history};

use super::run::{ENTITY, LANE, RETRIED, STRICT, good};
use crate::Record;
use crate::conformance::checker::{Accepted, Answer, Asked, End, Ending, Event, Op, What, check};
use crate::conformance::{START, id};

#[test]
fn the_good_run_is_good() {
    assert_eq!(good().check(), []);
}

/// More than ten thousand tasks and a hundred thousand events, with thousands of tasks in line for one
/// entity, are checked in about a second without optimisation. What is quadratic in any of these would take
/// minutes, so the limit is generous.
#[test]
fn a_large_run_takes_no_longer_than_it_should() {
    let (mut events, mut records) = (Vec::new(), Vec::new());
    for copy in 0..1600 {
        for n in ENTITY.into_iter().chain(LANE).chain(STRICT).chain([RETRIED]) {
            let record = copied(n, copy);
            log(&record, &mut events);
            records.push(record);
        }
    }
    assert!(records.len() > 10_000 && events.len() > 100_000, "{} events", events.len());
    let since = Instant::now();
    assert_eq!(check(&events, &records, true), []);
    let taken = since.elapsed();
    println!("{} tasks and {} events in {taken:?}", records.len(), events.len());
    assert!(taken < Duration::from_secs(20), "{taken:?}");
}

/// A task of the good run as if it had been submitted at the beginning, and then handled in a later round of
/// it.
fn copied(n: u64, copy: u64) -> Record {
    let mut record = good().records.iter().find(|record| record.task.id == id(n)).unwrap().clone();
    let rounds = Duration::from_secs(1) * u32::try_from(copy + 1).unwrap();
    let submitted = START.plus(Duration::from_micros(copy));
    for entry in &mut record.history {
        entry.at = if entry.from.is_none() { submitted } else { entry.at.plus(rounds) };
    }
    let last = record.history.last().unwrap().at;
    let task = &mut record.task;
    task.id = id(n + 100 * copy);
    task.spec.created_at = submitted;
    task.status.updated_at = last;
    task.status.finished_at = task.status.state.is_final().then_some(last);
    record
}

/// The log that explains a record: its submit, its handlers and their finishes.
fn log(record: &Record, events: &mut Vec<Event>) {
    let task = record.task.id;
    let entity = record.task.spec.lane.as_ref().and_then(Lane::entity).map(|entity| entity.to_string());
    let mut write = |at: Timestamp, what| events.push(Event { who: task.to_string().into(), at, what });
    let accepted = Answer::Submitted(vec![Accepted { id: task, created: true }]);
    let (namespace, kind) = (record.task.spec.namespace.to_string(), record.task.spec.kind.to_string());
    let asked = Asked { id: task, namespace, kind, key: None, entity: entity.clone() };
    write(record.history[0].at, What::Invoked { number: 0, op: Op::Submit(vec![asked]) });
    write(record.history[0].at, What::Ended { number: 0, end: End::Ok(accepted) });
    for Attempt { lease, number: attempt, claimed_at, ended_at, ended, .. } in
        history::attempts(&record.history)
    {
        let (at, number) = (ended_at.unwrap(), u64::from(lease));
        let (ending, state) = if ended == Some(Reason::Failed) {
            (Ending::Failed, State::WaitingForRetry)
        } else {
            (Ending::Completed, State::Completed)
        };
        write(claimed_at, What::HandlerStarted { task, lease, entity: entity.clone(), attempt });
        write(at, What::HandlerEnded { task, lease });
        write(at, What::Invoked { number, op: Op::Finish { task, lease, ending } });
        write(at, What::Ended { number, end: End::Ok(Answer::Done { changed: true, state }) });
    }
}
