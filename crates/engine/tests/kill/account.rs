//! What a run has come to, from its logs and its records: sums, and what the checker does not look at.

use std::collections::{BTreeMap, BTreeSet};

use windlass::{Lane, Lease, Reason, Record, State, TaskId, Timestamp, history};
use windlass_store::conformance::checker::{End, Ending, Event, Op, What};

use super::chores::{Done, key};

/// Sums of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Accounts {
    pub(crate) completed: usize,
    pub(crate) dead: usize,
    pub(crate) claims: usize,
    pub(crate) failures: usize,
    pub(crate) snoozes: usize,
    pub(crate) releases: usize,
    /// Claims that ended because their worker fell silent.
    pub(crate) expired: usize,
    /// Tasks that ended because of that.
    pub(crate) dead_by_crash: usize,
    /// Handlers that were started.
    pub(crate) started: usize,
    /// What was asked of the store by those who did not live to hear the answer.
    pub(crate) unanswered: usize,
    /// Finishes of claims that were lost.
    pub(crate) refused: usize,
}

/// The sums of a run of `tasks` chores, all of which have ended. Only they have keys.
pub(crate) fn of(events: &[Event], records: &[Record], tasks: u64) -> Accounts {
    let records: Vec<&Record> = records.iter().filter(|record| record.task.spec.key.is_some()).collect();
    let keys: BTreeSet<String> = records.iter().filter_map(|record| record.task.spec.key.clone()).collect();
    let expected: BTreeSet<String> = (0..tasks).map(key).collect();
    assert_eq!(keys, expected, "each chore is there");
    assert_eq!(records.len(), expected.len(), "and is there once");
    let mut sums = Accounts::default();
    for record in records {
        let (id, status) = (record.task.id, &record.task.status);
        for attempt in history::attempts(&record.history) {
            sums.claims += 1;
            match attempt.ended.unwrap() {
                Reason::Completed => sums.completed += 1,
                Reason::Failed => sums.failures += 1,
                Reason::Snoozed => sums.snoozes += 1,
                Reason::Released => sums.releases += 1,
                Reason::LeaseExpired | Reason::NotStarted => sums.expired += 1,
                other => panic!("{id}: nobody asked for {other}"),
            }
        }
        match status.state {
            State::Completed => {
                let done: Done = serde_json::from_str(record.result.as_ref().unwrap().as_str()).unwrap();
                let worker = status.worker.as_ref().unwrap().as_str().to_owned();
                assert_eq!(
                    done,
                    Done { worker, lease: status.lease },
                    "{id}: the result is that of its last holder"
                );
            }
            State::DeadLetter => {
                assert_eq!(
                    Some(status.attempt),
                    record.task.spec.max_attempts.map(Into::into),
                    "{id}: its attempts are used up"
                );
                sums.dead += 1;
                sums.dead_by_crash +=
                    usize::from(record.history.last().unwrap().reason == Reason::LeaseExpired);
            }
            other => panic!("{id} is {other}, and nobody asked for that"),
        }
    }
    sums.started = events.iter().filter(|event| matches!(event.what, What::HandlerStarted { .. })).count();
    let count = |wanted: fn(&What) -> bool| events.iter().filter(|event| wanted(&event.what)).count();
    sums.unanswered =
        count(|what| matches!(what, What::Invoked { .. })) - count(|what| matches!(what, What::Ended { .. }));
    let mut finishes = BTreeSet::new();
    for Event { who, what, .. } in events {
        match what {
            What::Invoked { number, op: Op::Finish { .. } } => {
                finishes.insert((who, *number));
            }
            What::Ended { number, end: End::Failed(_) } => {
                sums.refused += usize::from(finishes.contains(&(who, *number)));
            }
            _ => {}
        }
    }
    sums
}

/// The handlers of a run, by claim.
struct Handlers<'e> {
    /// Who started it, when, and when it was over: at the last word of a process that was killed.
    runs: BTreeMap<(TaskId, Lease), (&'e str, Timestamp, Timestamp)>,
    /// Claims whose finish was at least asked for.
    finished: BTreeSet<(TaskId, Lease)>,
    /// Those of them that were decided about without a handler.
    decided: BTreeSet<(TaskId, Lease)>,
}

impl<'e> Handlers<'e> {
    fn of(events: &'e [Event]) -> Self {
        let mut last_words = BTreeMap::new();
        for event in events {
            last_words.insert(&*event.who, event.at);
        }
        let (mut runs, mut finished, mut decided) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        for Event { who, at, what } in events {
            match what {
                What::HandlerStarted { task, lease, .. } => {
                    runs.insert((*task, *lease), (&**who, *at, last_words[&**who]));
                }
                What::HandlerEnded { task, lease } => {
                    runs.entry((*task, *lease)).and_modify(|(.., to)| *to = *at);
                }
                What::Invoked { op: Op::Finish { task, lease, ending }, .. } => {
                    finished.insert((*task, *lease));
                    if matches!(ending, Ending::Skipped | Ending::Expanded) {
                        decided.insert((*task, *lease));
                    }
                }
                What::Invoked { op: Op::Start { parent: Some(parent), .. }, .. } => {
                    decided.insert((parent.task, parent.lease));
                }
                _ => {}
            }
        }
        Self { runs, finished, decided }
    }
}

/// I13: a crash costs an attempt, and nothing else does. A worker that is not `killed` never loses a claim,
/// unless some `were_stopped`; what a killed one had begun and not finished has expired; and what was claimed
/// was begun, unless it expired or was given back.
pub(crate) fn check_attempts(
    events: &[Event],
    records: &[Record],
    killed: &BTreeSet<String>,
    were_stopped: bool,
) {
    let Handlers { runs, finished, decided } = Handlers::of(events);
    for record in records {
        let id = record.task.id;
        for attempt in history::attempts(&record.history) {
            let claim = (id, attempt.lease);
            let worker = attempt.worker.as_ref().unwrap().as_str();
            let begun = runs.get(&claim);
            match attempt.ended.unwrap() {
                Reason::LeaseExpired if !were_stopped => {
                    assert!(killed.contains(worker), "I13 {claim:?}: {worker} lives, but has lost it");
                }
                Reason::NotStarted => assert!(begun.is_none(), "I13 {claim:?}: it is said not to have begun"),
                Reason::LeaseExpired | Reason::Released => {}
                _ if decided.contains(&claim) => {
                    assert!(
                        begun.is_none(),
                        "{claim:?}: it was decided without its handler, which has begun"
                    );
                }
                other => assert!(begun.is_some(), "I13 {claim:?}: {other}, but no handler has begun"),
            }
            if let Some((who, ..)) = begun {
                assert_eq!(*who, worker, "I4 {claim:?}: its handler was the holder's");
                if killed.contains(worker) && !finished.contains(&claim) {
                    let lost = matches!(attempt.ended, Some(Reason::LeaseExpired | Reason::Released));
                    assert!(
                        lost,
                        "I13 {claim:?}: its worker was killed, but it ended as {:?}",
                        attempt.ended
                    );
                }
            }
        }
    }
    if !were_stopped {
        check_overlap(&runs, records);
    }
}

/// I7, as the handlers themselves have seen it: no two of an entity at the same time.
fn check_overlap(runs: &BTreeMap<(TaskId, Lease), (&str, Timestamp, Timestamp)>, records: &[Record]) {
    let mut entities = BTreeMap::<String, Vec<(Timestamp, Timestamp, (TaskId, Lease))>>::new();
    for record in records {
        let Some(entity) = record.task.spec.lane.as_ref().and_then(Lane::entity) else { continue };
        let id = record.task.id;
        let own = runs.range((id, Lease::MIN)..=(id, Lease::MAX));
        entities
            .entry(entity.as_str().to_owned())
            .or_default()
            .extend(own.map(|(claim, (_, from, to))| (*from, *to, *claim)));
    }
    let chores = records.iter().filter(|record| record.task.spec.workflow.is_none()).count();
    assert!(chores == 0 || !entities.is_empty(), "there were entities");
    for (entity, mut runs) in entities {
        runs.sort_unstable();
        for pair in runs.windows(2) {
            assert!(pair[0].1 <= pair[1].0, "I7 {entity}: {:?} began while {:?} ran", pair[1].2, pair[0].2);
        }
    }
}
