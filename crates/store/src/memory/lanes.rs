//! Slots of lanes.

use std::collections::BTreeMap;

use windlass_core::Task;

use super::Rows;
use crate::request::{Look, Reconciled};

impl Rows {
    /// The tasks of the lane that `task` is in, itself included, in submit order.
    pub(super) fn lane(&self, task: &Task) -> impl Iterator<Item = &Task> {
        let key = task.spec.lane_key().map(|(namespace, key)| (namespace.clone(), key.to_owned()));
        let same = move |other: &&Task| {
            key.is_some() && other.spec.lane_key() == key.as_ref().map(|(name, key)| (name, key.as_str()))
        };
        self.tasks.values().map(|record| &record.task).filter(same)
    }

    /// Gives free slots of the task's lane to parked tasks, in submit order. The head of the line decides:
    /// if it cannot start, nobody overtakes it. Says how many it gave.
    pub(super) fn give_slots(&mut self, task: &Task) -> u64 {
        let mut given = 0;
        loop {
            let taken = self.lane(task).filter(|other| other.status.slot).count();
            let Some(head) = self.lane(task).find(|other| other.is_parked()) else { return given };
            if !head.spec.lane.as_ref().is_some_and(|lane| lane.admits(taken)) {
                return given;
            }
            let seq = self.seqs[&head.id];
            self.tasks.entry(seq).and_modify(|record| record.task.status.slot = true);
            self.rings.claimable += 1;
            given += 1;
        }
    }

    /// Looks at the lanes after `after` in which somebody waits.
    pub(super) fn reconcile_lanes(&mut self, after: Option<&str>, limit: usize) -> Reconciled {
        // One parked task of each lane.
        let mut lanes = BTreeMap::new();
        for task in self.tasks.values().map(|record| &record.task).filter(|task| task.is_parked()) {
            let lane = task.spec.lane_key().map(|(namespace, key)| format!("{namespace} {key}"));
            lanes.entry(lane.unwrap_or_default()).or_insert_with(|| task.clone());
        }
        let rest = lanes.into_iter().filter(|(lane, _)| after.is_none_or(|after| **lane > *after));
        let rest: Vec<_> = rest.take(limit).collect();
        let repaired = rest.iter().map(|(_, task)| self.give_slots(task)).sum();
        let last = rest.last().filter(|_| rest.len() == limit).map(|(lane, _)| &**lane);
        Reconciled { repaired, next: Some(Look::next_lane(last)) }
    }
}
