//! How long finished tasks are kept.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::rejected::Invalid;
use crate::state::State;
use crate::time::Timestamp;
use crate::workflow::WorkflowState;

/// Ages after which final tasks may be deleted, by state. A state that is not named is kept for ever.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<(State, Duration)>", into = "Vec<(State, Duration)>")]
pub struct Retention {
    rules: Vec<(State, Duration)>,
}

/// The rules.
impl From<Retention> for Vec<(State, Duration)> {
    fn from(retention: Retention) -> Self {
        retention.rules
    }
}

impl TryFrom<Vec<(State, Duration)>> for Retention {
    type Error = Invalid;
    fn try_from(rules: Vec<(State, Duration)>) -> Result<Self, Invalid> {
        rules.into_iter().try_fold(Self::default(), |retention, (state, age)| retention.keep(state, age))
    }
}

impl Retention {
    /// Adds a rule; only final states have an age. The last rule for a state counts.
    pub fn keep(mut self, state: State, age: Duration) -> Result<Self, Invalid> {
        if !state.is_final() {
            let finals = State::ALL.into_iter().filter(|state| state.is_final());
            let words = finals.map(State::word).collect::<Vec<_>>().join(", ");
            return Err(Invalid::new("retention state", state.word(), format!("one of {words}")));
        }
        self.rules.retain(|(known, _)| *known != state);
        self.rules.push((state, age));
        Ok(self)
    }

    /// For each state with a rule: tasks that finished before this moment go.
    pub fn cutoffs(&self, now: Timestamp) -> impl Iterator<Item = (State, Timestamp)> {
        self.rules.iter().map(move |(state, age)| (*state, now.minus(*age)))
    }

    /// For each final state of workflows with a rule: those that finished before this moment go. A workflow
    /// in error is kept as long as a failed task, the others as long as tasks in the state of the same name.
    pub fn workflow_cutoffs(&self, now: Timestamp) -> impl Iterator<Item = (WorkflowState, Timestamp)> {
        self.cutoffs(now).filter_map(|(state, before)| {
            let state = match state {
                State::Completed => WorkflowState::Complete,
                State::Failed => WorkflowState::Error,
                State::Cancelled => WorkflowState::Cancelled,
                State::ResolvedManually => WorkflowState::ResolvedManually,
                _ => return None,
            };
            Some((state, before))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_final_states_have_an_age() {
        let day = Duration::from_secs(86_400);
        let keep = Retention::default().keep(State::Completed, day).unwrap();
        let now = Timestamp::from_micros(100_000_000_000);
        let cutoffs: Vec<_> = keep.cutoffs(now).collect();
        assert_eq!(cutoffs, [(State::Completed, Timestamp::from_micros(13_600_000_000))]);
        assert!(keep.keep(State::Running, day).is_err());
    }
}
