//! The history checker: finds what a run of many processes has lost, doubled, overlapped or put out of order.
//!
//! Every process writes what it asks for and what it is answered into a log of its own ([`Journal`]), so that
//! what was under way when it was killed is known to be unknown. When the run is over, [`check`] compares the
//! logs with what is in the store, histories and all, and names every promise that was broken. It decides
//! from answers, lease numbers and the order of histories. Clocks matter in three places only: the store's
//! own, for tasks that share a lane, and the writers', for which tasks a prune may have removed and for
//! whether a step was begun before its parents had ended. Neither clock may be set back during a run.
//!
//! What the rules take for granted: an id is used for one task ever; submits, starts, finishes, deletes and
//! prunes of a run are all logged, those of schedules as submits; nobody writes to the store while it is
//! being checked.
//!
//! What it does *not* see: effects of handlers, which are at-least-once; payloads and results; and, of a task
//! that was deleted, anything but what workers were told. Rows by themselves, as counts and slots, are the
//! business of [`invariants`].

mod event;
mod histories;
mod lanes;
mod leases;
mod log;
mod story;
mod submits;
#[cfg(test)]
mod tests;
mod violation;
mod workflows;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

pub use event::{Accepted, Answer, Asked, End, Ending, Event, Op, Parent, What};
pub use log::{Damaged, Journal, Pending, read};
pub use violation::Violation;

use super::invariants;
use crate::{Record, Store, WorkflowRecord};

/// Everything that is wrong with a run: `events` is its log, in any order, and `records` all that is in the
/// store, in the order of submission. `at_rest` says that the run is over and every task should have ended.
///
/// Of the ways in which one fault of a task shows, the most telling is reported.
#[must_use]
pub fn check(events: &[Event], records: &[Record], at_rest: bool) -> Vec<Violation> {
    let story = story::Story::of(events);
    let mut found = story.faults.clone();
    let by_id: BTreeMap<_, _> = records.iter().map(|record| (record.task.id, record)).collect();
    submits::check(&story, &by_id, &mut found);
    let (mut sound, mut broken) = (Vec::with_capacity(records.len()), BTreeSet::new());
    for record in records {
        let (task, state) = (record.task.id, record.task.status.state);
        if let Some(violation) = histories::check(record) {
            found.push(violation);
            broken.insert(task);
            continue;
        }
        sound.push(record);
        if at_rest && !state.is_final() {
            found.push(Violation::Unfinished { task, state });
        }
    }
    // What a broken history says about leases and lanes is noise.
    for (task, told) in story.tasks.iter().filter(|(task, _)| !broken.contains(task)) {
        leases::check(*task, told, by_id.get(task).copied(), &mut found);
    }
    lanes::check(&sound, &mut found);
    found
}

/// What is wrong with the workflows of a run, beside what [`check`] finds wrong with their tasks: all that
/// are in the store, and `records` as there.
#[must_use]
pub fn check_workflows(events: &[Event], records: &[Record], workflows: &[WorkflowRecord]) -> Vec<Violation> {
    let (story, mut found) = (story::Story::of(events), Vec::new());
    let by_id: BTreeMap<_, _> = records.iter().map(|record| (record.task.id, record)).collect();
    workflows::check(&story, &by_id, workflows, &mut found);
    found
}

/// [`check`] and [`check_workflows`] for the log in `directory` and all that is in `store`. A log that cannot
/// be read panics.
pub async fn check_store(directory: &Path, store: &dyn Store, at_rest: bool) -> Vec<Violation> {
    let events = read(directory).unwrap_or_else(|damaged| panic!("{damaged}"));
    let records = invariants::dump(store).await;
    let mut found = check(&events, &records, at_rest);
    found.extend(check_workflows(&events, &records, &invariants::dump_workflows(store).await));
    found
}
