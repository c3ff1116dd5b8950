//! Intervening: on a workflow as a whole, or on one of its steps.

use anyhow::Result;
use serde::Serialize;
use windlass::{Json, Steering, WorkflowId};

use super::target::StepTarget;
use crate::actor::ByArgs;
use crate::escape::plain;
use crate::session::Session;
use crate::show::Answer;
use crate::show::workflow::{WorkflowJson, state_text};

/// What an operator does to a step.
#[derive(Debug)]
pub(super) enum Verb {
    Cancel,
    Retry { force: bool },
    Resolve(Option<Json>),
    Skip,
}

/// Where a step is after an operator's command.
#[derive(Serialize, Debug)]
struct StepReceiptJson<'a> {
    workflow_id: String,
    step: &'a str,
    id: String,
    state: &'static str,
    changed: bool,
}

/// Changes a workflow as a whole.
pub(super) async fn steer(
    session: &Session,
    id: WorkflowId,
    steering: Steering,
    by: &ByArgs,
) -> Result<Answer> {
    let workflow = session.existing().await?.steer(id, steering, by.by()).await?;
    let text = format!("{id}  {}\n", state_text(&workflow, session.paint()));
    Ok(Answer::new(text, &WorkflowJson::of(&workflow)))
}

/// Changes a step: it is a task like any other.
pub(super) async fn step(session: &Session, target: &StepTarget, verb: Verb, by: &ByArgs) -> Result<Answer> {
    let client = session.existing().await?;
    let (id, by) = (client.step(target.workflow, &target.step).await?, by.by());
    let receipt = match verb {
        Verb::Cancel => client.cancel(id, by).await?,
        Verb::Retry { force } => client.retry(id, force, by).await?,
        Verb::Resolve(result) => client.resolve(id, result, by).await?,
        Verb::Skip => client.skip(id, by).await?,
    };
    let unchanged = if receipt.changed { "" } else { "  was so already" };
    let (state, name) = (session.paint().state(receipt.state), target.to_string());
    let json = StepReceiptJson {
        workflow_id: target.workflow.to_string(),
        step: &target.step,
        id: id.to_string(),
        state: receipt.state.word(),
        changed: receipt.changed,
    };
    Ok(Answer::new(format!("{}  {state}{unchanged}\n", plain(&name)), &json))
}
