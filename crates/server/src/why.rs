//! `windlass why`.

use std::str::FromStr;

use anyhow::{Result, anyhow};
use windlass::{Client, Invalid, TaskId, WorkflowId, explain};

use crate::paint::Paint;
use crate::session::Session;
use crate::show::explanation::WhyJson;
use crate::show::{Answer, explanation};
use crate::task::not_found;
use crate::workflow::StepTarget;

/// What it is asked about: a task by its id, or a step, written WORKFLOW/STEP.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    Task(TaskId),
    Step(StepTarget),
}

impl FromStr for Asked {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        match text.contains('/') {
            true => text.parse().map(Self::Step),
            false => text.parse().map(Self::Task),
        }
    }
}

pub(crate) async fn run(session: &Session, asked: &Asked) -> Result<Answer> {
    let client = session.existing().await?;
    let id = match asked {
        Asked::Task(id) => *id,
        Asked::Step(StepTarget { workflow, step }) => client.step(*workflow, step).await?,
    };
    answer(&client, id, session.paint()).await
}

/// Why a task is not running.
pub(crate) async fn answer(client: &Client, id: TaskId, paint: Paint) -> Result<Answer> {
    let Some(facts) = client.store().facts(id).await? else { return Err(absent(client, id).await) };
    if facts.task.spec.workflow.is_some() {
        let step = client.explain_step(id).await?.ok_or_else(|| not_found(id))?;
        return Ok(Answer::new(explanation::step_text(&step, paint), &WhyJson::of_step(&step)));
    }
    let because = explain(&facts);
    Ok(Answer::new(explanation::text(&facts, &because, paint), &WhyJson::of(&because)))
}

/// There is no such task; but what was meant may be a workflow.
async fn absent(client: &Client, id: TaskId) -> anyhow::Error {
    match client.workflow(WorkflowId::from_bytes(*id.as_bytes())).await {
        Ok(Some(_)) => anyhow!(
            "{id} is a workflow; `windlass workflow get {id}` shows its steps, `windlass why {id}/STEP` says why one is not running"
        ),
        _ => not_found(id),
    }
}
