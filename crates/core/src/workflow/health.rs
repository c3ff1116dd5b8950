//! How a whole store is doing, in numbers.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::activity::Activity;
use super::readiness::StepState;
use super::state::WorkflowState;
use crate::name::Name;
use crate::state::State;
use crate::time::Timestamp;

/// Connections to a database: how many are in use, and how many there may be. A store without a limit says
/// none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Connections {
    /// Those in use.
    pub active: u64,
    /// Most there may be; 0 if that is not limited.
    pub max: u64,
}

impl Connections {
    /// How much of what is possible is in use: from 0 to 1.
    fn pressure(self) -> f64 {
        match self.max {
            0 => 0.0,
            max => ratio(self.active, max).min(1.0),
        }
    }
}

/// How many workflows and steps are where.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct SystemHealth {
    workflows: [u64; WorkflowState::ALL.len()],
    steps: [u64; StepState::ALL.len()],
    /// Connections to the database.
    pub connections: Connections,
}

impl SystemHealth {
    /// From numbers of workflows, and of steps and items, by state.
    #[must_use]
    pub fn new(
        workflows: impl IntoIterator<Item = (WorkflowState, u64)>,
        steps: impl IntoIterator<Item = (State, u64)>,
        connections: Connections,
    ) -> Self {
        let mut health = Self { connections, ..Self::default() };
        for (state, count) in workflows {
            health.workflows[state as usize] += count;
        }
        for (state, count) in steps {
            health.steps[StepState::plain(state) as usize] += count;
        }
        health
    }

    /// Workflows in a state.
    #[must_use]
    pub fn workflows(&self, state: WorkflowState) -> u64 {
        self.workflows[state as usize]
    }

    /// Steps and items in a state.
    #[must_use]
    pub fn steps(&self, state: StepState) -> u64 {
        self.steps[state as usize]
    }

    /// All workflows.
    #[must_use]
    pub fn total_workflows(&self) -> u64 {
        self.workflows.iter().sum()
    }

    /// All steps and items.
    #[must_use]
    pub fn total_steps(&self) -> u64 {
        self.steps.iter().sum()
    }

    /// Workflows that are not over.
    #[must_use]
    pub fn active_workflows(&self) -> u64 {
        let active = WorkflowState::ALL.into_iter().filter(|state| !state.is_final());
        active.map(|state| self.workflows(state)).sum()
    }

    fn error_rate(&self) -> f64 {
        match self.total_workflows() {
            0 => 0.0,
            total => ratio(self.workflows(WorkflowState::Error), total),
        }
    }

    /// From 0 to 1: half of it is success, three tenths that nothing failed, two tenths free connections.
    #[must_use]
    pub fn score(&self) -> f64 {
        let total = self.total_workflows();
        if total == 0 {
            return 1.0;
        }
        let success = ratio(self.workflows(WorkflowState::Complete), total);
        success * 0.5 + (1.0 - self.error_rate()) * 0.3 + (1.0 - self.connections.pressure()) * 0.2
    }

    /// Whether more than four fifths of the connections are in use, or more than a fifth of the workflows
    /// failed.
    #[must_use]
    pub fn is_under_heavy_load(&self) -> bool {
        self.connections.pressure() > 0.8 || self.error_rate() > 0.2
    }
}

/// What a store has done since a moment, and how it is now.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Analytics {
    /// Workflows that are not over.
    pub active_workflows: u64,
    /// Namespaces that have workflows.
    pub namespaces: u64,
    /// Definitions that have workflows, by namespace and name.
    pub definitions: u64,
    /// [`SystemHealth::score`], to three decimals.
    pub health_score: f64,
    /// What happened.
    pub activity: Activity,
    /// From when on; the beginning of a minute.
    pub since: Timestamp,
    /// When this was found out.
    pub at: Timestamp,
}

impl Analytics {
    /// What happened since the minute that `since` is in. `definitions` are namespaces and names, in order.
    #[must_use]
    pub fn new<'a>(
        activity: Activity,
        health: &SystemHealth,
        definitions: impl IntoIterator<Item = (&'a Name, &'a Name)>,
        since: Timestamp,
        at: Timestamp,
    ) -> Self {
        let definitions: BTreeSet<_> = definitions.into_iter().collect();
        let namespaces: BTreeSet<_> = definitions.iter().map(|(namespace, _)| namespace).collect();
        Self {
            active_workflows: health.active_workflows(),
            namespaces: namespaces.len() as u64,
            definitions: definitions.len() as u64,
            health_score: (health.score() * 1_000.0).round() / 1_000.0,
            activity,
            since: Activity::minute(since),
            at,
        }
    }

    /// How many of the workflows that were started since then, in percent and to two decimals, as many as
    /// were completed since then are.
    #[must_use]
    pub fn completion_rate(&self) -> f64 {
        percent(self.activity.completed, self.activity.started)
    }

    /// The same of those that were given up.
    #[must_use]
    pub fn error_rate(&self) -> f64 {
        percent(self.activity.failed, self.activity.started)
    }

    /// Seconds that a completed workflow took, on average, to three decimals.
    #[must_use]
    pub fn average_workflow_seconds(&self) -> f64 {
        average(self.activity.lasted, self.activity.completed)
    }

    /// Seconds that a completed step took, on average, to three decimals.
    #[must_use]
    pub fn average_step_seconds(&self) -> f64 {
        average(self.activity.steps_lasted, self.activity.steps)
    }
}

#[allow(clippy::cast_precision_loss)]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (ratio(part, whole) * 10_000.0).round() / 100.0 }
}

fn average(micros: u64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { (ratio(micros, count) / 1_000.0).round() / 1_000.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(complete: u64, error: u64, other: u64, active: u64, max: u64) -> SystemHealth {
        let states = [WorkflowState::Complete, WorkflowState::Error, WorkflowState::StepsInProcess];
        let connections = Connections { active, max };
        SystemHealth::new(states.into_iter().zip([complete, error, other]), [], connections)
    }

    /// 2.16: half of it is success, three tenths that nothing failed, two tenths free connections.
    #[test]
    fn the_score_is_that_of_the_document() {
        for (health, score) in [
            (health(0, 0, 0, 0, 0), 1.0),
            (health(0, 0, 0, 100, 100), 1.0),
            (health(4, 0, 0, 0, 0), 1.0),
            (health(0, 4, 0, 0, 0), 0.2),
            (health(0, 0, 4, 0, 0), 0.5),
            (health(0, 4, 0, 10, 10), 0.0),
            (health(4, 0, 0, 50, 100), 0.9),
            // More than there may be is all of them.
            (health(4, 0, 0, 300, 100), 0.8),
            // 0.5 × 6/10 + 0.3 × (1 − 1/10) + 0.2 × (1 − 25/100)
            (health(6, 1, 3, 25, 100), 0.72),
        ] {
            assert!((health.score() - score).abs() < 1e-12, "{} and not {score}: {health:?}", health.score());
        }
    }

    /// C41: more than four fifths, and more than a fifth; a limit that nobody knows is none.
    #[test]
    fn load_is_heavy_above_its_limits() {
        for (health, heavy) in [
            (health(1, 0, 0, 0, 0), false),
            (health(1, 0, 0, 50, 0), false),
            (health(1, 0, 0, 80, 100), false),
            (health(1, 0, 0, 81, 100), true),
            (health(80, 20, 0, 0, 100), false),
            (health(79, 21, 0, 0, 100), true),
            (health(0, 0, 0, 81, 100), true),
        ] {
            assert_eq!(health.is_under_heavy_load(), heavy, "{health:?}");
        }
    }
}
