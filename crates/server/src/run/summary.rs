//! How a run ended: for people, and as the last event for programs.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use windlass::{Client, Json, Name, Place, State, Workflow};

use super::flow::Flow;
use super::follow::Look;
use super::view::took;
use crate::escape::plain;
use crate::moment;
use crate::paint::Paint;
use crate::show::{Answer, Seconds, Verbatim, json_text};

/// So many failures are told; the store has the others.
const FAILURES: usize = 10;

/// So many lines of the log of what failed.
const LOG_LINES: usize = 10;

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Summary {
    workflow: Workflow,
    took: Duration,
    /// How many steps, without their items, are where.
    steps: BTreeMap<&'static str, usize>,
    /// What the last steps have returned.
    results: Vec<(Name, Option<Json>)>,
    failures: Vec<Failure>,
    /// How many there are, with those that are not told.
    failed: usize,
}

/// A step, or an item, that failed for good.
#[derive(Serialize, Debug)]
struct Failure {
    step: String,
    task_id: String,
    #[serde(serialize_with = "word")]
    state: State,
    attempt: u32,
    max_attempts: Option<u32>,
    error: String,
    /// The last lines of its log.
    log: Vec<String>,
}

fn word<S: serde::Serializer>(state: &State, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(state.word())
}

impl Summary {
    pub(crate) async fn of(client: &Client, look: &Look, took: Duration) -> Result<Self> {
        let flow = Flow::of(client, look.flow.inspection.record.workflow.id).await?;
        let (inspection, mut steps) = (&flow.inspection, BTreeMap::new());
        for task in inspection.tasks.iter().filter(|task| Place::of(task.id).item.is_none()) {
            *steps.entry(task.status.state.word()).or_default() += 1;
        }
        let failed = flow.failed();
        let mut failures = Vec::new();
        for (name, task) in failed.iter().take(FAILURES) {
            let record = client.get(task.id).await?;
            let notes = record.and_then(|record| record.notes.into_iter().last());
            let lines = notes.map(|notes| notes.lines).unwrap_or_default();
            let dropped = lines.len().saturating_sub(LOG_LINES);
            failures.push(Failure {
                step: name.clone(),
                task_id: task.id.to_string(),
                state: task.status.state,
                attempt: task.status.attempt,
                max_attempts: task.spec.max_attempts.map(Into::into),
                error: task.status.error.clone().unwrap_or_default(),
                log: lines.into_iter().skip(dropped).map(|line| line.text).collect(),
            });
        }
        let results = client.output(&inspection.record).await?;
        let workflow = inspection.record.workflow.clone();
        Ok(Self { workflow, took, steps, results, failures, failed: failed.len() })
    }

    /// With the command that tries what failed again.
    pub(crate) fn answer(&self, retry: &str, paint: Paint) -> Answer {
        let Self { workflow, failures, results, .. } = self;
        let json = Ended {
            event: "workflow_ended",
            at: moment::now().to_string(),
            workflow_id: workflow.id.to_string(),
            name: &workflow.name,
            version: &workflow.version,
            state: workflow.state.word(),
            success: workflow.is_success(),
            took_seconds: Seconds(self.took),
            steps: &self.steps,
            results: results.iter().map(|(name, result)| (&**name, result.as_ref().map(Verbatim))).collect(),
            failures,
            failed: self.failed,
            retry: (self.failed > 0).then_some(retry),
        };
        let failure = (!workflow.is_success()).then(|| match self.failed {
            0 => format!("the workflow is {}", workflow.state.word()),
            _ => format!("the workflow has failed; `{retry}` tries the failed steps again"),
        });
        Answer::new(self.text(paint), &json).but(failure)
    }

    fn text(&self, paint: Paint) -> String {
        let Self { workflow, steps, results, failures, failed, .. } = self;
        let steps: Vec<String> = steps.iter().map(|(state, count)| format!("{count} {state}")).collect();
        let colour = if workflow.is_success() { State::Completed } else { State::Failed };
        let state = paint.dress(colour, workflow.state.word());
        let mut text = format!("{} {state} in {}: {}\n", workflow.name, took(self.took), steps.join(", "));
        for (name, result) in results.iter().filter_map(|(name, result)| Some((name, result.as_ref()?))) {
            text += &format!("{name}: {}\n", json_text(result));
        }
        for Failure { step, attempt, max_attempts, error, log, .. } in failures {
            let of = max_attempts.map(|most| format!(" of {most}")).unwrap_or_default();
            let name = paint.dress(State::Failed, step);
            text += &format!("{name} failed at attempt {attempt}{of}: {}\n", plain(error));
            text.extend(log.iter().map(|line| format!("    {}\n", plain(line))));
        }
        if *failed > failures.len() {
            text += &format!("… and {} more\n", failed - failures.len());
        }
        text
    }
}

/// The last event.
#[derive(Serialize, Debug)]
struct Ended<'s> {
    event: &'static str,
    at: String,
    workflow_id: String,
    name: &'s str,
    version: &'s str,
    state: &'static str,
    success: bool,
    took_seconds: Seconds,
    steps: &'s BTreeMap<&'static str, usize>,
    results: BTreeMap<&'s str, Option<Verbatim<'s>>>,
    failures: &'s [Failure],
    failed: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<&'s str>,
}
