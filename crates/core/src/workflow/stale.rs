//! Workflows that have not moved for too long.

use std::time::Duration;

use super::{Workflow, WorkflowState};
use crate::time::Timestamp;

/// How long workflows may rest in a state before somebody should look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience {
    /// Waiting for a workflow within, or paused.
    pub dependencies: Duration,
    /// Waiting for a moment.
    pub retry: Duration,
    /// With steps that can run or are running, none of which ends.
    pub in_process: Duration,
    /// In any other state that is not final.
    pub otherwise: Duration,
    /// From start to end.
    pub lifetime: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        Self {
            dependencies: minutes(60),
            retry: minutes(30),
            in_process: minutes(30),
            otherwise: minutes(24 * 60),
            lifetime: minutes(24 * 60),
        }
    }
}

/// A workflow that has used up most of its time, or more.
#[derive(Clone, PartialEq, Debug)]
pub struct Stale {
    /// The workflow.
    pub workflow: Workflow,
    /// How long it has rested, or lived if that is what is too long.
    pub rested: Duration,
    /// How long it may.
    pub allowed: Duration,
}

impl Stale {
    /// From which part of the time on it is told.
    const WARNING: f64 = 0.8;

    /// Whether its time is used up, and not only most of it.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.rested >= self.allowed
    }

    /// `stale` or `warning`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        if self.is_over() { "stale" } else { "warning" }
    }
}

impl Patience {
    /// A workflow, if it has used up four fifths of its time.
    #[must_use]
    pub fn check(&self, workflow: &Workflow, now: Timestamp) -> Option<Stale> {
        let allowed = match workflow.state {
            state if state.is_final() => return None,
            WorkflowState::WaitingForDependencies => self.dependencies,
            WorkflowState::WaitingForRetry => self.retry,
            WorkflowState::StepsInProcess => self.in_process,
            _ => self.otherwise,
        };
        let times =
            [(now.since(workflow.updated_at), allowed), (now.since(workflow.created_at), self.lifetime)];
        let used =
            |(rested, allowed): &(Duration, Duration)| rested.as_secs_f64() / allowed.as_secs_f64().max(1e-9);
        let worst = times.into_iter().max_by(|a, b| used(a).total_cmp(&used(b)))?;
        let (rested, allowed) = worst;
        (used(&worst) >= Stale::WARNING).then(|| Stale { workflow: workflow.clone(), rested, allowed })
    }
}
