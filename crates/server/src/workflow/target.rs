//! What an operator points at: a workflow, or a step of one.

use std::fmt;
use std::str::FromStr;

use windlass::{Invalid, WorkflowId};

/// A step of a workflow, or an item of one, written `ID/STEP` or `ID/STEP[3]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StepTarget {
    pub(crate) workflow: WorkflowId,
    pub(crate) step: String,
}

/// A workflow as a whole, written `ID`, or a step of one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    Workflow(WorkflowId),
    Step(StepTarget),
}

impl FromStr for StepTarget {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let (id, step) = text.split_once('/').filter(|(_, step)| !step.is_empty()).ok_or_else(|| {
            Invalid::new("step", text, "ID/STEP, the id of a workflow and the name of one of its steps")
        })?;
        Ok(Self { workflow: id.parse()?, step: step.into() })
    }
}

impl FromStr for Target {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        match text.contains('/') {
            true => text.parse().map(Self::Step),
            false => text.parse().map(Self::Workflow),
        }
    }
}

impl fmt::Display for StepTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.workflow, self.step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_tells_a_step_from_a_workflow() {
        let id = "01890a5d-ac96-774b-bcce-b30000000000";
        assert_eq!(id.parse(), Ok(Target::Workflow(id.parse().unwrap())));
        let step = StepTarget { workflow: id.parse().unwrap(), step: "regions[3]".into() };
        assert_eq!(format!("{id}/regions[3]").parse(), Ok(Target::Step(step.clone())));
        assert_eq!(step.to_string().parse(), Ok(step));
        for bad in ["", "x", "x/y", &format!("{id}/")] {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
        assert!(id.parse::<StepTarget>().unwrap_err().to_string().contains("ID/STEP"));
    }
}
