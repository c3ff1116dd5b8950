//! What must hold when a run is over.

use std::collections::BTreeMap;

use windlass::{Error, Reason, Record, State, TaskId, history};
use windlass_store::conformance::checker::{self, Op, Violation, What};
use windlass_store::conformance::invariants;

use super::book::short;
use super::work::Script;
use super::world::World;

/// Checks everything that can only be seen at the end.
pub(crate) async fn judge(world: &World) {
    let records = invariants::dump(&*world.store).await;
    for violation in check_log(world, &records) {
        world.wrong(violation.to_string());
    }
    let mut faults = Vec::new();
    for record in &records {
        faults.extend(check_record(world, record));
    }
    faults.extend(check_answers(world, &records));
    for fault in faults {
        world.wrong(fault);
    }
    // What is left open by a stuck task would only be repeated by this, and it panics.
    if world.book().wrong.is_empty() {
        invariants::check(&*world.store, &*world.clock).await;
    }
}

/// The history checker's findings.
fn check_log(world: &World, records: &[Record]) -> Vec<Violation> {
    let mut found = checker::check(&world.book().events, records, true);
    if world.went_back.load(std::sync::atomic::Ordering::SeqCst) > 0 {
        // It compares the times of different tasks; the mirror goes by the order in which things were done.
        let by_time = |violation: &Violation| {
            matches!(violation, Violation::LaneOverfull { .. } | Violation::OutOfOrder { .. })
        };
        found.retain(|violation| !by_time(violation));
    }
    found
}

/// Each attempt ended as its script says, and as its handler ended.
fn check_record(world: &World, record: &Record) -> Vec<String> {
    let (script, task, mirror) = (Script::from_json(&record.payload), &record.task, world.mirror());
    let mut faults = Vec::new();
    for attempt in history::attempts(&record.history) {
        let (lease, name) = (attempt.lease, format!("{}.{}", short(task.id), attempt.lease));
        let Some(reason) = attempt.ended else { continue };
        let (note, run) = (attempt.note.as_deref().unwrap_or_default(), mirror.runs.get(&(task.id, lease)));
        if !script.may_end(attempt.number, lease, reason, note, task.spec.timeout.is_some()) {
            faults
                .push(format!("{name} (attempt {}) ended as {reason} ({note}): {script:?}", attempt.number));
        }
        let ended = run.and_then(|run| run.ended);
        if reason == Reason::Released && ended == Some("completed") {
            faults.push(format!("{name} was completed by its handler and given back: {note}"));
        }
        if reason == Reason::Released && note.contains("was lost") && run.is_some() {
            faults.push(format!("{name} was run and given back as if it had not been known"));
        }
        if reason == Reason::Completed && task.status.lease == lease {
            let expected = run.and_then(|run| run.result.as_deref());
            if expected != record.result.as_ref().map(windlass::Json::as_str) {
                faults.push(format!("{name} has another result than its handler gave"));
            }
        }
    }
    faults
}

/// I1: what the client was told about each submit is so.
fn check_answers(world: &World, records: &[Record]) -> Vec<String> {
    let there: BTreeMap<TaskId, State> =
        records.iter().map(|record| (record.task.id, record.task.status.state)).collect();
    let book = world.book();
    let pruned = book.tally.of("pruned") > 0;
    let deleted: Vec<_> = book
        .events
        .iter()
        .filter_map(|event| match event.what {
            What::Invoked { op: Op::Delete { task }, .. } => Some(task),
            _ => None,
        })
        .collect();
    let mut faults = Vec::new();
    for (asked, answer) in &*world.told.lock().unwrap() {
        match answer {
            Ok(submitted) => {
                let gone = deleted.contains(&submitted.id) || pruned;
                if !gone && !there.contains_key(&submitted.id) {
                    faults.push(format!("I1: {} was acknowledged and is not there", short(submitted.id)));
                }
                if submitted.created != (submitted.id == *asked) {
                    faults.push(format!("{} was acknowledged as {}", short(*asked), short(submitted.id)));
                }
            }
            Err(Error::Unknown(_)) => {}
            Err(error) if there.contains_key(asked) => {
                faults.push(format!(
                    "{} is there, and who submitted it was told that it is not: {error}",
                    short(*asked)
                ));
            }
            Err(_) => {}
        }
    }
    faults
}
