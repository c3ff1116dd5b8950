//! What operators, and programs that move workflows by themselves, may do to a workflow as a whole.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Workflow, WorkflowState};
use crate::limits;
use crate::name::check_key;
use crate::rejected::Rejected;
use crate::time::Timestamp;

/// A request to change a workflow as a whole.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Steering {
    /// Stop it: what has not ended is cancelled, running handlers included.
    Cancel,
    /// Let nothing of it start. What is running goes on.
    Pause,
    /// Let it go on.
    Resume,
    /// Settle it by hand: what has not ended is cancelled.
    Resolve,
    /// Take its failures as final. Steps that wait for them stay where they are: retrying a step opens it
    /// again.
    GiveUp,
    /// Move it from one state to another, if it is in the first, its steps allow it and nobody else moves it.
    Move {
        /// Where it is supposed to be.
        from: WorkflowState,
        /// Where it is to go.
        to: WorkflowState,
        /// Who moves it.
        owner: String,
        /// How long nobody else may, if it then is in one of the active states.
        hold: Duration,
    },
}

impl Steering {
    /// Where the workflow is to go, if not where its steps say; or why that cannot be. `None` changes nothing
    /// about where it is.
    pub(super) fn check(
        &self,
        workflow: &Workflow,
        now: Timestamp,
    ) -> Result<Option<WorkflowState>, Rejected> {
        let (id, state) = (workflow.id, workflow.state);
        let refused = |wanted: WorkflowState, why: &str| {
            Err(Rejected::WorkflowMoved { workflow: id, state, wanted, why: why.into() })
        };
        match self {
            Self::Cancel if state == WorkflowState::Cancelled => Ok(None),
            Self::Resolve if state == WorkflowState::ResolvedManually => Ok(None),
            Self::GiveUp if state == WorkflowState::Error => Ok(None),
            Self::Move { from, to, .. } if *from != state => {
                refused(*to, &format!("it was supposed to be {from}"))
            }
            _ if state.is_final() => Err(Rejected::WorkflowOver { workflow: id, state }),
            Self::Cancel => Ok(Some(WorkflowState::Cancelled)),
            Self::Resolve => Ok(Some(WorkflowState::ResolvedManually)),
            Self::GiveUp if state == WorkflowState::BlockedByFailures => Ok(Some(WorkflowState::Error)),
            Self::GiveUp => refused(WorkflowState::Error, "only what is blocked by failures is given up"),
            Self::Pause | Self::Resume => Ok(None),
            Self::Move { to, owner, .. } => {
                check_key("owner", owner, limits::KEY_BYTES)?;
                if let Some((other, until)) = &workflow.owner
                    && state.is_active()
                    && other != owner
                    && *until > now
                {
                    return Err(Rejected::WorkflowOwned {
                        workflow: id,
                        owner: other.clone(),
                        until: *until,
                    });
                }
                let by_operator = matches!(to, WorkflowState::Cancelled | WorkflowState::ResolvedManually);
                let is_given_up = *to == WorkflowState::Error && state == WorkflowState::BlockedByFailures;
                if !state.may_become(*to) {
                    refused(*to, "there is no such arrow")
                } else if to.is_active()
                    || by_operator
                    || is_given_up
                    || *to == WorkflowState::of(&workflow.counts)
                {
                    Ok(Some(*to))
                } else {
                    refused(*to, &format!("its steps say that it is {}", WorkflowState::of(&workflow.counts)))
                }
            }
        }
    }
}
