//! Workflows: tasks that were submitted together and come after one another.
//!
//! A **step** is a task with a place in a workflow; an **item** is a task that a step with a `map` has made
//! for one element of its list. Both have ids that follow from the workflow's and their place, so the tasks
//! of a workflow are a range of ids and nobody has to look up who comes after whom: the [`Blueprint`] says
//! it.
//!
//! Readiness is counted, never searched. A step that waits knows how many of its parents are done;
//! [`Cascade`] moves these numbers when parents end, and says what becomes of the step and of the workflow.

mod activity;
mod backoff;
mod blueprint;
mod builder;
mod cascade;
mod definition;
mod executions;
mod graph;
mod health;
mod join;
mod lanes;
mod new;
mod readiness;
mod stale;
mod state;
mod steer;
mod view;

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use sha2::{Digest, Sha256};
use uuid::Uuid;

pub use activity::Activity;
pub use backoff::StepBackoff;
pub use blueprint::{Blueprint, Flaw};
pub use builder::{DefinitionBuilder, StepBuilder};
pub use cascade::{Cascade, Cascaded, Wanted};
pub use definition::{
    Action, Child, Defaults, Definition, Growth, Identity, Join, Map, OnFailure, RESERVED, RUN, RUN_AD_HOC,
    Retry, Shared, Span, Step, WORKFLOW,
};
pub use executions::{Execution, Executions, Gathering};
pub use graph::Graph;
pub use health::{Analytics, Connections, SystemHealth};
pub use join::Parents;
pub use lanes::{EvaluatedLane, HeldLane, LanesAbove};
pub(crate) use new::item;
pub use new::{Admission, NewWorkflow, Source, Within};
pub use readiness::{Readiness, StepState};
pub use stale::{Patience, Stale};
pub use state::WorkflowState;
pub use steer::Steering;
pub use view::{BlockingReason, ExecutionContext, ExecutionStatus};

use crate::id::TaskId;
use crate::limits;
use crate::name::{Name, stored_text};
use crate::rejected::Invalid;
use crate::state::State;
use crate::task::{Status, Task};
use crate::time::Timestamp;

/// The identity of a workflow: a UUID, by convention version 7. Its last 34 bits are not looked at: they
/// number its tasks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkflowId(Uuid);

/// Bits that number the items of a step.
const ITEM_BITS: u32 = 17;

/// Bits that number the tasks of a workflow.
const PLACE_BITS: u32 = 34;

impl WorkflowId {
    /// From a UUID of any version.
    #[must_use]
    pub fn new(uuid: Uuid) -> Self {
        Self(Uuid::from_u128(uuid.as_u128() >> PLACE_BITS << PLACE_BITS))
    }

    /// From the 16 bytes that a store keeps.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// The 16 bytes that a store keeps.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// The workflow that a task with this id is part of, if it is a step.
    #[must_use]
    pub fn of(step: TaskId) -> Self {
        Self::new(Uuid::from_bytes(*step.as_bytes()))
    }

    /// The task at a place in this workflow.
    #[must_use]
    pub fn task(self, place: Place) -> TaskId {
        self.at(place.number())
    }

    /// The id of the task whose place has this number, if there is one.
    #[must_use]
    pub fn at(self, number: u64) -> TaskId {
        let number = u128::from(number) & ((1 << PLACE_BITS) - 1);
        TaskId::from_bytes((self.0.as_u128() | number).to_be_bytes())
    }

    /// The task of a step.
    #[must_use]
    pub fn step(self, step: u32) -> TaskId {
        self.task(Place { step, item: None })
    }

    /// Where all tasks of this workflow are, in the order of their places.
    #[must_use]
    pub fn tasks(self) -> RangeInclusive<TaskId> {
        let last = self.0.as_u128() | ((1 << PLACE_BITS) - 1);
        TaskId::from_bytes(*self.0.as_bytes())..=TaskId::from_bytes(last.to_be_bytes())
    }

    /// The ids that this workflow reserves for its steps and items, whether it has them or not.
    #[must_use]
    pub fn reserved(self) -> RangeInclusive<TaskId> {
        let end = (limits::STEPS as u64 + 1) << ITEM_BITS;
        self.step(0)..=self.at(end - 1)
    }

    /// The workflow that reserves this id for one of its steps or items, if that workflow exists. None if no
    /// step or item can have this id, as is so for the ids that Windlass makes for other tasks.
    #[must_use]
    pub fn reserving(task: TaskId) -> Option<Self> {
        Some(Self::of(task)).filter(|id| id.reserved().contains(&task))
    }

    /// Where the items of a step are.
    #[must_use]
    pub fn items(self, step: u32) -> RangeInclusive<TaskId> {
        self.task(Place { step, item: Some(0) })..=self.task(Place { step, item: Some((1 << ITEM_BITS) - 2) })
    }
}

impl FromStr for WorkflowId {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let uuid = Uuid::try_parse(text).map_err(|_| {
            Invalid::new("workflow id", text, "a UUID such as 01890a5d-ac96-774b-bcce-b30000000000")
        })?;
        Ok(Self(uuid))
    }
}

impl fmt::Display for WorkflowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for WorkflowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Where a task is in its workflow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place {
    /// The number of its step in the definition.
    pub step: u32,
    /// Which item of the step's list it is for, if it is for one.
    pub item: Option<u32>,
}

impl Place {
    /// The place of a task that is part of a workflow.
    #[must_use]
    pub fn of(task: TaskId) -> Self {
        let number = u128::from_be_bytes(*task.as_bytes());
        let low = |bits: u32, value: u128| u32::try_from(value & ((1 << bits) - 1)).unwrap_or(0);
        let step = low(PLACE_BITS - ITEM_BITS, number >> ITEM_BITS).saturating_sub(1);
        Self { step, item: low(ITEM_BITS, number).checked_sub(1) }
    }
}

impl Place {
    /// Its number among all places of a workflow.
    #[must_use]
    pub fn number(self) -> u64 {
        (u64::from(self.step) + 1) << ITEM_BITS | self.item.map_or(0, |item| u64::from(item) + 1)
    }
}

/// What a step in the state `waiting` waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub enum Waits {
    /// It does not wait.
    #[default]
    Nothing,
    /// Its parents.
    Parents(Parents),
    /// The items it has made.
    Items {
        /// How many are done, or need not be.
        settled: u32,
        /// How many there are.
        of: u32,
    },
    /// The workflow that it is.
    Workflow,
    /// An operator, who has paused the workflow.
    Resume,
}

impl Waits {
    /// As a store keeps it: a word and two numbers.
    #[must_use]
    pub fn columns(self) -> (Option<&'static str>, Option<u32>, Option<u32>) {
        match self {
            Self::Nothing => (None, None, None),
            Self::Parents(Parents { met, lost }) => (Some("parents"), Some(met), Some(lost)),
            Self::Items { settled, of } => (Some("items"), Some(settled), Some(of)),
            Self::Workflow => (Some("workflow"), None, None),
            Self::Resume => (Some("resume"), None, None),
        }
    }

    /// As a store reads it back.
    pub fn stored(word: &str, met: Option<u32>, others: Option<u32>) -> Result<Self, Invalid> {
        let (met, others) = (met.unwrap_or(0), others.unwrap_or(0));
        match word {
            "parents" => Ok(Self::Parents(Parents { met, lost: others })),
            "items" => Ok(Self::Items { settled: met, of: others }),
            "workflow" => Ok(Self::Workflow),
            "resume" => Ok(Self::Resume),
            _ => Err(Invalid::new("what a step waits for", word, "a word of this version's list")),
        }
    }
}

/// How many tasks of a workflow, steps and items, are where.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Waiting for others, or for an operator.
    pub waiting: u32,
    /// Waiting for the workflow that they are.
    pub nested: u32,
    /// Pending, claimed or running.
    pub active: u32,
    /// Waiting for a moment.
    pub timed: u32,
    /// Completed or settled by hand.
    pub done: u32,
    /// Skipped.
    pub skipped: u32,
    /// Cancelled.
    pub cancelled: u32,
    /// Failed for good.
    pub failed: u32,
}

impl Counts {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u32 {
        let Self { waiting, nested, active, timed, done, skipped, cancelled, failed } = self;
        waiting + nested + active + timed + done + skipped + cancelled + failed
    }

    /// Those that are over.
    #[must_use]
    pub fn settled(&self) -> u32 {
        self.done + self.skipped + self.cancelled + self.failed
    }

    /// The number that a task counts towards.
    fn of(&mut self, status: &Status) -> &mut u32 {
        match status.state {
            State::Waiting if status.waits == Waits::Workflow => &mut self.nested,
            State::Waiting => &mut self.waiting,
            State::Pending | State::Claimed | State::Running => &mut self.active,
            State::Scheduled | State::WaitingForRetry => &mut self.timed,
            State::Completed | State::ResolvedManually => &mut self.done,
            State::Skipped => &mut self.skipped,
            State::Cancelled => &mut self.cancelled,
            State::Failed | State::DeadLetter => &mut self.failed,
        }
    }

    /// Adds a task.
    pub fn add(&mut self, status: &Status) {
        *self.of(status) += 1;
    }

    /// Takes a task away.
    pub fn take(&mut self, status: &Status) {
        let number = self.of(status);
        *number = number.saturating_sub(1);
    }
}

/// A workflow, without its input, which is read only when it is wanted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Workflow {
    /// Its identity.
    pub id: WorkflowId,
    /// Tenant.
    pub namespace: Name,
    /// The name of its definition.
    pub name: Name,
    /// The version of its definition.
    pub version: String,
    /// Idempotency key.
    pub key: Option<String>,
    /// Added to that of its steps; higher first.
    pub priority: i32,
    /// The step that it is, if it is one.
    pub parent: Option<TaskId>,
    /// How many workflows it is within.
    pub nesting: u32,
    /// The workflow that it repeats from a step on.
    pub origin: Option<WorkflowId>,
    /// When the store accepted it.
    pub created_at: Timestamp,
    /// Where it is.
    pub state: WorkflowState,
    /// Whether an operator has paused it: nothing of it starts.
    pub paused: bool,
    /// How many of its tasks are where.
    pub counts: Counts,
    /// How often one of them failed and was to be tried again.
    pub retries: u32,
    /// Who moves it, and until when nobody else may. Only for programs that move workflows by themselves.
    pub owner: Option<(String, Timestamp)>,
    /// When its state, or a count, last changed.
    pub updated_at: Timestamp,
    /// When it became final. Set if and only if it is.
    pub finished_at: Option<Timestamp>,
    /// Rows of its history.
    pub entries: u32,
}

/// One change of a workflow's state.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WorkflowEntry {
    /// 1, 2, 3 … without gaps.
    pub seq: u32,
    /// The state before; none for the first.
    pub from: Option<WorkflowState>,
    /// The state after.
    pub to: WorkflowState,
    /// When; never earlier than the entry before.
    pub at: Timestamp,
    /// Who, if it was a person or program.
    pub actor: Option<String>,
    /// What there is to say.
    pub note: Option<String>,
}

/// A workflow's new row and the history that leads to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkflowChange {
    /// The row from now on.
    pub after: Workflow,
    /// Rows to append to its history; none if only its counts have changed.
    pub entries: Vec<WorkflowEntry>,
}

impl Workflow {
    /// Points of priority that an hour of age, and a retry, are worth.
    pub const AGEING: f64 = 0.1;

    /// Retries that count.
    const RETRIES: u32 = 100;

    /// Its place among workflows: higher first. What all of them gain by getting older is left out, so that
    /// it stays as it is: in thousandths of seconds of age, of which a point of priority is ten hours.
    #[must_use]
    pub fn rank(&self) -> i64 {
        let retries = i64::from(self.retries.min(Self::RETRIES));
        i64::from(self.priority) * 36_000_000 + retries * 3_600_000
            - self.created_at.as_micros().div_euclid(1_000)
    }

    /// Its priority at a moment: the older it is, and the more often it was retried, the higher. Retries
    /// count up to a number; age counts without end, as all grow older alike and their order has to be a
    /// constant of each row.
    #[must_use]
    pub fn computed_priority(&self, now: Timestamp) -> f64 {
        let hours = now.since(self.created_at).as_secs_f64() / 3600.0;
        f64::from(self.priority) + Self::AGEING * (hours + f64::from(self.retries.min(Self::RETRIES)))
    }

    /// The version of a definition that belongs to this workflow alone. No other can have it: it is not a
    /// version that a file may give.
    #[must_use]
    pub fn own_version(id: WorkflowId) -> String {
        format!("\u{1}{id}")
    }

    /// Whether a version is that of a definition which belongs to one workflow alone.
    #[must_use]
    pub fn is_own_version(version: &str) -> bool {
        version.starts_with('\u{1}')
    }

    /// The version of its definition as it is shown: none, if that belongs to this workflow alone.
    #[must_use]
    pub fn shown_version(&self) -> &str {
        if Self::is_own_version(&self.version) { "" } else { &self.version }
    }

    /// The identity of a step of its definition, for those who know steps by uuids: the first 16 bytes of the
    /// SHA-256 of `NAMESPACE/NAME/VERSION/STEP`, the version as it is shown. The same for all workflows of a
    /// definition.
    #[must_use]
    pub fn named_step(&self, step: &str) -> Uuid {
        let mut hash = Sha256::new();
        for part in [&*self.namespace, "/", &*self.name, "/", self.shown_version(), "/", step] {
            hash.update(part);
        }
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash.finalize()[..16]);
        Uuid::from_bytes(bytes)
    }

    /// Whether a change of one of its tasks means anything to it or to the others.
    #[must_use]
    pub fn is_touched(before: &Status, after: &Status) -> bool {
        let is_active = |state| matches!(state, State::Pending | State::Claimed | State::Running);
        let is_same = (before.state, before.waits) == (after.state, after.waits);
        !(is_same || is_active(before.state) && is_active(after.state))
    }

    /// Goes to `to`, through the states in between.
    fn move_to(
        &mut self,
        to: WorkflowState,
        now: Timestamp,
        actor: Option<&str>,
        note: Option<&str>,
    ) -> Vec<WorkflowEntry> {
        let mut entries = Vec::new();
        let at = now.max(self.updated_at);
        for next in self.state.way_to(to) {
            self.entries += 1;
            let is_last = next == to;
            entries.push(WorkflowEntry {
                seq: self.entries,
                from: Some(self.state),
                to: next,
                at,
                actor: actor.filter(|_| is_last).map(Into::into),
                note: note.filter(|_| is_last).map(stored_text),
            });
            self.state = next;
        }
        self.updated_at = at;
        self.finished_at = self.state.is_final().then_some(at);
        if !self.state.is_active() {
            self.owner = None;
        }
        entries
    }
}

impl Task {
    /// Its place, if it is part of a workflow.
    #[must_use]
    pub fn place(&self) -> Option<Place> {
        self.spec.workflow.map(|_| Place::of(self.id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workflow_reserves_the_ids_of_its_steps_and_items() {
        let id = WorkflowId::new(Uuid::from_u128(0x0189_0a5d_ac96_774b_bcce_b302_099a_8057));
        let last = u32::try_from(limits::STEPS).unwrap() - 1;
        for step in [0, 1, 1000, last] {
            for item in [None, Some(0), Some((1 << ITEM_BITS) - 2)] {
                assert_eq!(WorkflowId::reserving(id.task(Place { step, item })), Some(id));
            }
        }
        let none = [
            0,
            1,
            (1 << ITEM_BITS) - 1,
            Place { step: last + 1, item: None }.number(),
            0b111 << 31,
            u64::MAX,
        ];
        for number in none {
            assert_eq!(WorkflowId::reserving(id.at(number)), None, "{number}");
        }
    }

    #[test]
    fn places_are_read_from_ids() {
        let id: WorkflowId = "01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap();
        let id = WorkflowId::new(Uuid::from_bytes(*id.as_bytes()));
        let last = u32::try_from(limits::STEPS).unwrap();
        let mut before = None;
        for step in [0, 1, 2, 1000, last - 1, last] {
            for item in [None, Some(0), Some(1), Some(last - 1), Some(last)] {
                let place = Place { step, item };
                let task = id.task(place);
                assert_eq!(Place::of(task), place);
                assert!(id.tasks().contains(&task));
                assert_eq!(id.items(step).contains(&task), item.is_some());
                assert!(before < Some(task), "ids follow the order of places");
                before = Some(task);
            }
        }
        let next =
            WorkflowId::from_bytes((u128::from_be_bytes(*id.as_bytes()) + (1 << PLACE_BITS)).to_be_bytes());
        assert!(!id.tasks().contains(&next.step(0)));
    }
}
