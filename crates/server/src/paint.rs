//! Colours, where there is somebody to see them.

use std::io::IsTerminal;

use windlass::{State, WorkflowState};

/// Whether to colour. Only for people: never in pipes, never beside JSON, never against `NO_COLOR`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Paint {
    /// Text only.
    Plain,
    /// With escape codes.
    Colour,
}

impl Paint {
    /// For standard output.
    pub(crate) fn for_stdout(json: bool) -> Self {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let refused = set("NO_COLOR").is_some() || set("TERM").is_some_and(|term| term == "dumb");
        if json || refused || !std::io::stdout().is_terminal() { Self::Plain } else { Self::Colour }
    }

    /// The word of a state, in its colour.
    pub(crate) fn state(self, state: State) -> String {
        self.dress(state, state.word())
    }

    /// The word of a workflow's state, in the colour of a task's that means about the same.
    pub(crate) fn workflow(self, state: WorkflowState) -> String {
        let like = match state {
            WorkflowState::Pending | WorkflowState::Initializing => State::Pending,
            WorkflowState::EnqueuingSteps
            | WorkflowState::StepsInProcess
            | WorkflowState::EvaluatingResults => State::Running,
            WorkflowState::WaitingForDependencies | WorkflowState::WaitingForRetry => State::Waiting,
            WorkflowState::BlockedByFailures | WorkflowState::Error => State::Failed,
            WorkflowState::Complete => State::Completed,
            WorkflowState::Cancelled => State::Cancelled,
            WorkflowState::ResolvedManually => State::ResolvedManually,
        };
        self.dress(like, state.word())
    }

    /// A text in the colour of a state.
    pub(crate) fn dress(self, state: State, text: &str) -> String {
        let code = match state {
            _ if self == Self::Plain => None,
            State::Pending => None,
            State::Claimed | State::Running => Some(36),
            State::Waiting | State::Scheduled | State::WaitingForRetry => Some(33),
            State::Completed => Some(32),
            State::Failed | State::DeadLetter => Some(31),
            State::Cancelled | State::Skipped => Some(90),
            State::ResolvedManually => Some(35),
        };
        code.map_or_else(|| text.into(), |code| format!("\u{1b}[{code}m{text}\u{1b}[0m"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_colour_has_codes() {
        for state in State::ALL {
            assert_eq!(Paint::Plain.state(state), state.word());
            assert!(Paint::Colour.state(state).contains(state.word()));
        }
        assert_eq!(Paint::Colour.state(State::Failed), "\u{1b}[31mfailed\u{1b}[0m");
    }
}
