//! What happens to workflows, counted as it happens: by the minute, so that no question about the last hour
//! reads its workflows.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Workflow, WorkflowEntry, WorkflowState};
use crate::state::State;
use crate::task::Status;
use crate::time::Timestamp;

/// What happened to workflows and their steps.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Activity {
    /// Workflows that were started.
    pub started: u64,
    /// Workflows that were completed.
    pub completed: u64,
    /// Workflows that were given up.
    pub failed: u64,
    /// Microseconds from start to end of those that were completed.
    pub lasted: u64,
    /// Steps and items that were completed.
    pub steps: u64,
    /// Steps and items that failed for good.
    pub failed_steps: u64,
    /// Microseconds that the last attempts of the completed ones have taken.
    pub steps_lasted: u64,
}

impl Activity {
    /// What is counted together.
    pub const MINUTE: Duration = Duration::from_secs(60);

    /// The minute that a moment is in.
    #[must_use]
    pub fn minute(at: Timestamp) -> Timestamp {
        let micros = at.as_micros();
        Timestamp::from_micros(micros - micros.rem_euclid(60_000_000))
    }

    /// Whether nothing happened.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Both together.
    pub fn add(&mut self, other: &Self) {
        self.started += other.started;
        self.completed += other.completed;
        self.failed += other.failed;
        self.lasted += other.lasted;
        self.steps += other.steps;
        self.failed_steps += other.failed_steps;
        self.steps_lasted += other.steps_lasted;
    }

    /// A task has become what it was not.
    pub(super) fn note_task(&mut self, was: State, is: &Status) {
        match is.state {
            State::Completed if was != State::Completed => {
                self.steps += 1;
                self.steps_lasted += is.started_at.map_or(0, |started| between(started, is.finished_at));
            }
            State::Failed | State::DeadLetter if !was.is_final() => self.failed_steps += 1,
            _ => {}
        }
    }

    /// A workflow has gone through states.
    pub(super) fn note_workflow(&mut self, workflow: &Workflow, entries: &[WorkflowEntry]) {
        for entry in entries {
            match entry.to {
                WorkflowState::Complete => {
                    self.completed += 1;
                    self.lasted += between(workflow.created_at, Some(entry.at));
                }
                WorkflowState::Error => self.failed += 1,
                _ => {}
            }
        }
    }
}

/// As stores keep it.
impl From<Activity> for [u64; 7] {
    fn from(it: Activity) -> Self {
        [it.started, it.completed, it.failed, it.lasted, it.steps, it.failed_steps, it.steps_lasted]
    }
}

impl From<[u64; 7]> for Activity {
    fn from([started, completed, failed, lasted, steps, failed_steps, steps_lasted]: [u64; 7]) -> Self {
        Self { started, completed, failed, lasted, steps, failed_steps, steps_lasted }
    }
}

fn between(from: Timestamp, to: Option<Timestamp>) -> u64 {
    let to = to.map_or(0, |to| to.as_micros().saturating_sub(from.as_micros()));
    u64::try_from(to).unwrap_or(0)
}
