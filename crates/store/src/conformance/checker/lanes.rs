//! Rules about lanes, of which entities are those with one slot.
//!
//! They are read from the histories alone, by the times in them: times of different tasks are compared here
//! and nowhere else. What happened in the same microsecond may have happened in either order, and is taken to
//! be right.
//!
//! A task has a slot from its claim, at the latest, until it is final, has made its items or, unless its lane
//! is strict, waits for a retry or another moment; given back or expired it keeps it, and a step that is a
//! workflow while that runs. When it takes its slot, all who stood in line before it have theirs.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::{Lane, Reason, State, TaskId, Timestamp};

use super::Violation;
use crate::Record;

/// Checks all lanes; `records` are in the order of submission.
pub(super) fn check(records: &[&Record], found: &mut Vec<Violation>) {
    let mut lanes: BTreeMap<_, Vec<(&Record, &Lane)>> = BTreeMap::new();
    for record in records {
        let spec = &record.task.spec;
        if let (Some(key), Some(lane)) = (spec.lane_key(), &spec.lane) {
            lanes.entry(key).or_default().push((record, lane));
        }
    }
    for ((_, key), tasks) in lanes {
        let past: Vec<Past> = tasks.iter().map(|(record, lane)| Past::of(record, lane)).collect();
        found.extend(overfull(key, &past));
        found.extend(out_of_order(key, &past));
    }
}

/// What the history of one task says about its slots.
struct Past {
    task: TaskId,
    limit: usize,
    /// When it had a slot; to the end of time if it has it still.
    slots: Vec<(Timestamp, Timestamp)>,
    /// When it was pending. The first is marked if it was so from its submit on.
    pending: Vec<(Timestamp, Timestamp, bool)>,
    /// Claims with a slot that it took while it was pending for them: from when it was, and when it was
    /// claimed.
    starts: Vec<(Timestamp, Timestamp)>,
}

impl Past {
    fn of(record: &Record, lane: &Lane) -> Self {
        let limit = usize::try_from(lane.limit()).unwrap_or(usize::MAX);
        let (mut slots, mut pending, mut starts) = (Vec::new(), Vec::new(), Vec::new());
        let (mut slot_since, mut pending_since) = (None, None);
        for entry in &record.history {
            if let Some((since, from_submit)) = pending_since.take() {
                pending.push((since, entry.at, from_submit));
                if entry.to == State::Claimed && slot_since.is_none() {
                    starts.push((since, entry.at));
                    slot_since = Some(entry.at);
                }
            }
            if entry.to == State::Pending {
                pending_since = Some((entry.at, entry.from.is_none()));
            }
            let waits = entry.to == State::Waiting && entry.reason != Reason::Nested;
            // A failure whose retry delay is zero is pending at once, and gives the slot back as if it
            // waited.
            let retries = entry.to.is_timed() || entry.to == State::Pending && entry.reason == Reason::Failed;
            if (entry.to.is_final() || waits || retries && !lane.is_strict())
                && let Some(since) = slot_since.take()
            {
                slots.push((since, entry.at));
            }
        }
        slots.extend(slot_since.map(|since| (since, Timestamp::MAX)));
        pending.extend(pending_since.map(|(since, from_submit)| (since, Timestamp::MAX, from_submit)));
        Self { task: record.task.id, limit, slots, pending, starts }
    }
}

/// I7: who took the last of the slots that are taken saw fewer taken than its limit.
fn overfull(key: &str, lane: &[Past]) -> Option<Violation> {
    let mut moments = Vec::new();
    for (index, past) in lane.iter().enumerate() {
        for (from, to) in past.slots.iter().filter(|(from, to)| from < to) {
            moments.extend([(*from, true, index), (*to, false, index)]);
        }
    }
    // Slots are given back before they are taken, if both happen at once.
    moments.sort_unstable();
    // Who has a slot, and how many of them there are by limit.
    let (mut taken, mut limits) = (BTreeSet::new(), BTreeMap::<usize, usize>::new());
    for (at, takes, index) in moments {
        let past = &lane[index];
        if !takes {
            taken.remove(&index);
            limits.entry(past.limit).and_modify(|tasks| *tasks -= 1);
            continue;
        }
        let other = taken.last().map(|index: &usize| lane[*index].task);
        taken.insert(index);
        *limits.entry(past.limit).or_default() += 1;
        let largest = limits.iter().rev().find(|(_, tasks)| **tasks > 0).map_or(0, |(limit, _)| *limit);
        if let Some(other) = other.filter(|_| taken.len() > largest) {
            let (lane, held, at) = (key.into(), taken.len(), at.to_string());
            return Some(Violation::LaneOverfull { lane, task: past.task, other, held, limit: largest, at });
        }
    }
    None
}

/// I7: nobody takes a slot while as many as its limit, who were in line before it, still wait to be claimed:
/// they would all have slots.
fn out_of_order(key: &str, lane: &[Past]) -> Option<Violation> {
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    enum Step {
        Joins,
        Leaves,
        Starts(Timestamp),
    }
    let mut moments = Vec::new();
    for (index, past) in lane.iter().enumerate() {
        for (number, (from, to, _)) in past.pending.iter().enumerate() {
            moments.extend([(*from, Step::Joins, index, number), (*to, Step::Leaves, index, number)]);
        }
        moments.extend(past.starts.iter().map(|(since, at)| (*at, Step::Starts(*since), index, 0)));
    }
    moments.sort_unstable();
    // Who is pending, in the order of submission: since when, and whether from the submit on.
    let mut line = BTreeMap::new();
    for (_, step, index, number) in moments {
        match step {
            Step::Joins => {
                let (since, _, from_submit) = lane[index].pending[number];
                line.insert((index, number), (since, from_submit));
            }
            Step::Leaves => drop(line.remove(&(index, number))),
            Step::Starts(in_line_since) => {
                let before = line.range(..(index, 0)).filter(|(_, (since, from_submit))| {
                    // Submitted and pending earlier than this one was even there, whatever the clock says.
                    *from_submit || *since < in_line_since
                });
                let mut overtaken = before.map(|((index, _), _)| lane[*index].task);
                let limit = lane[index].limit;
                if let Some(overtaken) = overtaken.nth(limit.saturating_sub(1)) {
                    return Some(Violation::OutOfOrder {
                        lane: key.into(),
                        task: lane[index].task,
                        overtaken,
                    });
                }
            }
        }
    }
    None
}
