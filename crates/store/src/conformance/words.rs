//! Short words for the values that scenarios are written with.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::{
    Command, Definition, Entity, Firing, Json, Missed, Name, NewSchedule, NewTask, NewWorkflow, Outcome,
    Overlap, Report, Schedule, Source, State, TaskId, Template, Timestamp, Token, WorkerId, WorkflowId,
};

use crate::{Claim, Claimed};

/// The kind of tasks that do not care.
pub const KIND: &str = "test:work";

/// The id numbered `n`: the same in every store.
#[must_use]
pub fn id(n: u64) -> TaskId {
    TaskId::from_bytes(((0x0190_0000_0000_7000_8000_0000_0000_0000_u128) | u128::from(n)).to_be_bytes())
}

/// The proof of a claim.
#[must_use]
pub fn token(claimed: &Claimed) -> Token {
    let status = &claimed.task.status;
    Token { task: claimed.task.id, lease: status.lease, worker: status.worker.clone().unwrap() }
}

/// A finish with `outcome` of what was claimed.
#[must_use]
pub fn finish(claimed: &Claimed, outcome: Outcome) -> Command {
    Command::Finish { token: token(claimed), outcome, started_at: None }
}

/// A report about what was claimed.
#[must_use]
pub fn report(claimed: &Claimed, report: Report) -> Command {
    Command::Report { token: token(claimed), report }
}

/// A report that leaves `details`, which must be JSON, for the next attempt.
#[must_use]
pub fn details(details: &str) -> Report {
    Report { details: Some(Json::new("details", details).unwrap()), ..Report::default() }
}

/// A schedule of tasks of kind [`KIND`] for every hour, the first of them `next_at`.
#[must_use]
pub fn hourly(name: &str, next_at: Timestamp) -> NewSchedule {
    let task = NewTask::new(id(0), Name::kind(KIND).unwrap(), Json::default());
    NewSchedule {
        namespace: Name::default(),
        name: Name::new("schedule", name).unwrap(),
        cron: "0 * * * *".into(),
        zone: "UTC".into(),
        template: Template::new(task),
        missed: Missed::default(),
        overlap: Overlap::default(),
        paused: None,
        next_at,
    }
}

/// The slot that a schedule waits for, with a task of this id; the next is an hour later.
#[must_use]
pub fn firing(schedule: &Schedule, id: TaskId) -> Firing {
    let slot = schedule.next_at;
    Firing {
        namespace: schedule.namespace.clone(),
        name: schedule.name.clone(),
        expected: slot,
        next_at: slot.plus(Duration::from_secs(3600)),
        last_at: Some(slot),
        tasks: vec![schedule.task(id, Some(slot))],
        skipped: 0,
        left_out: None,
        error: None,
    }
}

/// A claim of up to `limit` tasks of kind [`KIND`] from the default queue.
#[must_use]
pub fn claim_of(worker: &WorkerId, limit: usize) -> Claim {
    Claim {
        worker: worker.clone(),
        namespace: Name::default(),
        queues: vec![Name::default()],
        kinds: vec![Name::kind(KIND).unwrap()],
        limit,
    }
}

/// A failure that may be retried as the policy says.
#[must_use]
pub fn failed(error: &str) -> Outcome {
    Outcome::Failed { error: error.into(), retryable: true, retry_after: None }
}

/// A failure for good.
#[must_use]
pub fn failed_for_good(error: &str) -> Outcome {
    Outcome::Failed { error: error.into(), retryable: false, retry_after: None }
}

/// A success with `result`, which must be JSON.
#[must_use]
pub fn completed(result: &str) -> Outcome {
    Outcome::Completed { result: Json::result(result).unwrap() }
}

/// An entity, which must be written well.
#[must_use]
pub fn entity(text: &str) -> Entity {
    text.parse().unwrap()
}

/// The ids of what was claimed.
#[must_use]
pub fn ids(claimed: &[Claimed]) -> Vec<TaskId> {
    claimed.iter().map(|claimed| claimed.task.id).collect()
}

/// The states that a task without dependencies can be in.
pub const STATES: [State; 10] = [
    State::Scheduled,
    State::Pending,
    State::Claimed,
    State::Running,
    State::WaitingForRetry,
    State::Completed,
    State::Failed,
    State::DeadLetter,
    State::Cancelled,
    State::ResolvedManually,
];

/// The id of the workflow numbered `n`: the same in every store.
#[must_use]
pub fn workflow_id(n: u64) -> WorkflowId {
    WorkflowId::from_bytes((0x0190_0000_0000_7000_8000_u128 << 48 | u128::from(n) << 40).to_be_bytes())
}

/// A definition called `test` with these steps, in the order of their names; each is a task of [`KIND`]
/// unless it says otherwise.
#[must_use]
pub fn definition(steps: Value) -> Definition {
    let mut text = json!({ "name": "test" });
    text["steps"] = steps;
    definition_of(text)
}

/// A definition; each step is a task of [`KIND`] unless it says otherwise.
#[must_use]
pub fn definition_of(mut text: Value) -> Definition {
    for step in text["steps"].as_object_mut().unwrap().values_mut() {
        let step = step.as_object_mut().unwrap();
        if !["task", "run", "workflow"].iter().any(|action| step.contains_key(*action)) {
            step.insert("task".into(), KIND.into());
        }
    }
    serde_json::from_value(text).unwrap()
}

/// A workflow for this definition alone.
#[must_use]
pub fn ad_hoc(n: u64, definition: Definition) -> NewWorkflow {
    NewWorkflow::new(workflow_id(n), Source::AdHoc(Box::new(definition)), Json::default())
}

/// A step's list: an item for each text, which must be JSON.
#[must_use]
pub fn expanded(items: &[&str], max_parallel: Option<u32>) -> Outcome {
    let items = items.iter().map(|text| Json::payload(text).unwrap()).collect();
    Outcome::Expanded { items, max_parallel, lanes: Vec::new() }
}
