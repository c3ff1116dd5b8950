//! Rules about submits: what was accepted is there, nothing else is, and a key has one task.

use std::collections::BTreeMap;

use windlass_core::{Entity, Lane, Task, TaskId};

use super::Violation;
use super::event::Asked;
use super::story::{Key, Story, Told};
use super::violation::difference;
use crate::Record;

/// Checks every task that the log mentions, and every key.
pub(super) fn check(story: &Story<'_>, records: &BTreeMap<TaskId, &Record>, found: &mut Vec<Violation>) {
    let mut pruned = 0;
    for (task, told) in &story.tasks {
        match records.get(task) {
            Some(record) => found.extend(altered(told, &record.task)),
            None if !story.may_be_pruned(told) => found.extend(lost(*task, told)),
            None => pruned += usize::from(lost(*task, told).is_some()),
        }
        if !story.is_step(*task) {
            found.extend(invented(*task, told, records.contains_key(task)));
        }
        found.extend(miscreated(*task, told));
    }
    if let Some(told) = story.pruned.filter(|told| *told < pruned) {
        found.push(Violation::Overpruned { missing: pruned, pruned: told });
    }
    keys(story, records, found);
}

/// I1, for a task that is not in the store.
fn lost(task: TaskId, told: &Told<'_>) -> Option<Violation> {
    let who = told.created.first().map(|(who, _)| *who).or(told.found.first().copied())?;
    (!told.deleted).then(|| Violation::Lost { task, who: who.into() })
}

/// I1, for one that is: it must be what was asked for.
fn altered(told: &Told<'_>, task: &Task) -> Option<Violation> {
    let (_, asked) = told.created.first()?;
    let Asked { id, namespace, kind, key, entity } = asked;
    let spec = &task.spec;
    let stored = spec.lane.as_ref().and_then(Lane::entity);
    let stored = stored.as_ref().map(Entity::as_str);
    let differs = difference("id", id, &task.id)
        .or_else(|| difference("namespace", &**namespace, &*spec.namespace))
        .or_else(|| difference("kind", &**kind, &*spec.kind))
        .or_else(|| difference("key", key, &spec.key))
        .or_else(|| difference("entity", &entity.as_deref(), &stored));
    differs.map(|(what, told, stored)| Violation::Altered { task: task.id, what, told, stored })
}

/// I2: nothing runs that was not submitted, and nothing is there that was refused.
fn invented(task: TaskId, told: &Told<'_>, is_there: bool) -> Option<Violation> {
    let handled = told.handlers.first().map(|handler| handler.who);
    let met = handled.or(told.refused.filter(|_| is_there));
    met.filter(|_| !told.is_submitted()).map(|who| Violation::Invented { task, who: who.into() })
}

/// I8: each task was created once.
fn miscreated(task: TaskId, told: &Told<'_>) -> Option<Violation> {
    match (told.created.len(), told.found.first()) {
        (0, Some(who)) if !told.maybe_submitted => Some(Violation::NeverCreated { task, who: (*who).into() }),
        (0 | 1, _) => None,
        (times, _) => Some(Violation::CreatedTwice { task, times }),
    }
}

/// I8: a key has one task. Of those that it was answered with, only those count that are there still: a key
/// whose task was deleted is free again.
fn keys(story: &Story<'_>, records: &BTreeMap<TaskId, &Record>, found: &mut Vec<Violation>) {
    let mut keys: BTreeMap<Key<'_>, Vec<TaskId>> = BTreeMap::new();
    for (key, tasks) in &story.keys {
        keys.entry(*key).or_default().extend(tasks.iter().filter(|task| records.contains_key(task)));
    }
    for Record { task: Task { id, spec, .. }, .. } in records.values() {
        if let Some(key) = &spec.key {
            keys.entry((&spec.namespace, &spec.kind, key)).or_default().push(*id);
        }
    }
    for ((.., key), tasks) in keys {
        if let Some(pair) = tasks.iter().find(|task| **task != tasks[0]) {
            found.push(Violation::TwoIds { key: key.into(), first: tasks[0], second: *pair });
        }
    }
}
