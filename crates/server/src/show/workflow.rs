//! Workflows, with and without their steps.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use utoipa::ToSchema;
use windlass::{
    Client, Counts, Error, Inspection, Json, Name, Started, StepAncestor, Timestamp, Workflow, WorkflowEntry,
    WorkflowId, WorkflowRecord, WorkflowState,
};

use super::step::{self, StepJson, Steps};
use super::{Page, Verbatim, json_text, time};
use crate::escape::{plain, short};
use crate::moment;
use crate::paint::Paint;
use crate::table::{Cell, Table};

/// The answer to the start of a workflow.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = StartedWorkflow)]
pub(crate) struct StartedJson {
    id: String,
    state: &'static str,
    created: bool,
}

impl StartedJson {
    pub(crate) fn of(started: &Started) -> Self {
        let Started { id, state, created } = started;
        Self { id: id.to_string(), state: state.word(), created: *created }
    }
}

/// How many of a workflow's tasks are where.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = StepCounts)]
struct CountsJson {
    total: u32,
    waiting: u32,
    nested: u32,
    active: u32,
    timed: u32,
    done: u32,
    skipped: u32,
    cancelled: u32,
    failed: u32,
}

impl CountsJson {
    fn of(counts: &Counts) -> Self {
        let Counts { waiting, nested, active, timed, done, skipped, cancelled, failed } = *counts;
        Self { total: counts.total(), waiting, nested, active, timed, done, skipped, cancelled, failed }
    }
}

/// A workflow without input, steps and history.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = Workflow)]
pub(crate) struct WorkflowJson<'a> {
    id: String,
    namespace: &'a str,
    definition: &'a str,
    /// Null if the definition belongs to this workflow alone.
    version: Option<&'a str>,
    state: &'static str,
    paused: bool,
    idempotency_key: Option<&'a str>,
    priority: i32,
    parent_workflow_id: Option<String>,
    parent_task_id: Option<String>,
    origin_id: Option<String>,
    counts: CountsJson,
    created_at: String,
    updated_at: String,
    finished_at: Option<String>,
}

/// The version of its definition, unless that belongs to the workflow alone.
fn version(workflow: &Workflow) -> Option<&str> {
    Some(&*workflow.version).filter(|version| !Workflow::is_own_version(version))
}

impl<'a> WorkflowJson<'a> {
    pub(crate) fn of(workflow: &'a Workflow) -> Self {
        Self {
            id: workflow.id.to_string(),
            namespace: &workflow.namespace,
            definition: &workflow.name,
            version: version(workflow),
            state: workflow.state.word(),
            paused: workflow.paused,
            idempotency_key: workflow.key.as_deref(),
            priority: workflow.priority,
            parent_workflow_id: workflow.parent.map(|task| WorkflowId::of(task).to_string()),
            parent_task_id: workflow.parent.map(|task| task.to_string()),
            origin_id: workflow.origin.map(|origin| origin.to_string()),
            counts: CountsJson::of(&workflow.counts),
            created_at: workflow.created_at.to_string(),
            updated_at: workflow.updated_at.to_string(),
            finished_at: time(workflow.finished_at),
        }
    }
}

/// One row of a history.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = WorkflowHistoryEntry)]
struct EntryJson<'a> {
    seq: u32,
    from: Option<&'static str>,
    to: &'static str,
    at: String,
    actor: Option<&'a str>,
    note: Option<&'a str>,
}

impl<'a> EntryJson<'a> {
    fn of(entry: &'a WorkflowEntry) -> Self {
        let WorkflowEntry { seq, from, to, at, actor, note } = entry;
        Self {
            seq: *seq,
            from: from.map(WorkflowState::word),
            to: to.word(),
            at: at.to_string(),
            actor: actor.as_deref(),
            note: note.as_deref(),
        }
    }
}

/// What the last steps have returned, by name.
#[derive(Debug)]
struct OutputJson<'a>(&'a [(Name, Option<Json>)]);

impl Serialize for OutputJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, result) in self.0 {
            map.serialize_entry(&**name, &result.as_ref().map(Verbatim))?;
        }
        map.end()
    }
}

/// A workflow as it is shown: all of it, but no more steps and items than asked for.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) inspection: Inspection,
    /// What its last steps have returned, if it has ended well.
    pub(crate) output: Option<Vec<(Name, Option<Json>)>>,
    pub(crate) most: Steps,
}

impl Seen {
    /// A look at a workflow, if it is there.
    pub(crate) async fn look(client: &Client, id: WorkflowId, most: Steps) -> Result<Option<Self>, Error> {
        let Some(inspection) = client.inspect(id).await? else { return Ok(None) };
        let output = match inspection.record.workflow.state {
            WorkflowState::Complete => Some(client.output(&inspection.record).await?),
            _ => None,
        };
        Ok(Some(Self { inspection, output, most }))
    }
}

/// A workflow with its steps and everything else that belongs to it.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = WorkflowRecord)]
pub(crate) struct SeenJson<'a> {
    #[serde(flatten)]
    workflow: WorkflowJson<'a>,
    execution_status: &'static str,
    recommended_action: &'static str,
    health_status: &'static str,
    completion_percentage: f64,
    total_steps: u32,
    ready_steps: u32,
    input: Verbatim<'a>,
    #[schema(value_type = Option<std::collections::HashMap<String, serde_json::Value>>)]
    output: Option<OutputJson<'a>>,
    steps: Vec<StepJson<'a>>,
    steps_left_out: usize,
    history: Vec<EntryJson<'a>>,
}

impl<'a> SeenJson<'a> {
    pub(crate) fn of(seen: &'a Seen) -> Self {
        let Seen { inspection, output, most } = seen;
        let WorkflowRecord { workflow, input, history, .. } = &inspection.record;
        let context = inspection.context();
        let shown = most.of(inspection);
        Self {
            workflow: WorkflowJson::of(workflow),
            execution_status: context.status.word(),
            recommended_action: context.status.recommended_action(),
            health_status: context.health(),
            completion_percentage: context.completion_percentage(),
            total_steps: context.total,
            ready_steps: context.ready,
            input: Verbatim(input),
            output: output.as_deref().map(OutputJson),
            steps_left_out: inspection.tasks.len() - shown.len(),
            steps: shown.into_iter().map(|task| StepJson::of(inspection, task)).collect(),
            history: history.iter().map(EntryJson::of).collect(),
        }
    }
}

/// `nightly 2`, or `nightly, ad hoc`.
fn definition_text(workflow: &Workflow) -> String {
    match version(workflow) {
        Some(version) => format!("{} {}", workflow.name, plain(version)),
        None => format!("{}, ad hoc", workflow.name),
    }
}

/// `steps_in_process, paused`.
pub(crate) fn state_text(workflow: &Workflow, paint: Paint) -> String {
    let paused = if workflow.paused { ", paused" } else { "" };
    format!("{}{paused}", paint.workflow(workflow.state))
}

/// Workflows, one on each line.
pub(crate) fn table(workflows: &[Workflow], now: Timestamp, paint: Paint) -> String {
    let headers = ["ID", "STATE", "DEFINITION", "NAMESPACE", "OVER", "FAILED", "STARTED", "UPDATED", "NOTE"];
    let mut table = Table::new(&headers);
    for workflow in workflows {
        let (counts, namespace) = (&workflow.counts, &*workflow.namespace);
        table.row([
            workflow.id.to_string().into(),
            workflow.state.into(),
            definition_text(workflow).into(),
            Some(namespace).filter(|namespace| *namespace != "default").unwrap_or_default().into(),
            format!("{} of {}", counts.settled(), counts.total()).into(),
            if counts.failed == 0 { "".into() } else { Cell::from(counts.failed) },
            moment::relative(workflow.created_at, now).into(),
            moment::relative(workflow.updated_at, now).into(),
            remark(workflow).into(),
        ]);
    }
    table.without_empty().render(paint, "")
}

fn remark(workflow: &Workflow) -> String {
    let mut said = Vec::new();
    if workflow.paused {
        said.push("paused".to_owned());
    }
    said.extend(workflow.parent.map(|task| format!("within {}", WorkflowId::of(task))));
    said.extend(workflow.origin.map(|origin| format!("repeats {origin}")));
    said.join(", ")
}

/// A workflow with its steps and everything else that belongs to it, as a page.
pub(crate) fn page(seen: &Seen, now: Timestamp, paint: Paint) -> String {
    let Seen { inspection, output, most } = seen;
    let WorkflowRecord { workflow, input, history, .. } = &inspection.record;
    let (context, counts) = (inspection.context(), &workflow.counts);
    let mut page = Page::default();
    page.line("Workflow", workflow.id.to_string());
    page.line("State", state_text(workflow, paint));
    page.line("Definition", definition_text(workflow));
    page.text("Namespace", Some(&*workflow.namespace).filter(|namespace| *namespace != "default"));
    page.text("Key", workflow.key.as_deref());
    page.line("Priority", Some(workflow.priority.to_string()).filter(|_| workflow.priority != 0));
    page.line("Within", workflow.parent.map(|task| format!("{}, as {task}", WorkflowId::of(task))));
    page.line("Repeats", workflow.origin.map(|origin| origin.to_string()));
    let percent = context.completion_percentage();
    let failed = if counts.failed == 0 { String::new() } else { format!(", {} failed", counts.failed) };
    let (over, total) = (counts.settled() - counts.failed, counts.total());
    page.line("Progress", format!("{over} of {total} done or left out ({percent} %){failed}"));
    let status = context.status;
    page.line("Status", format!("{status}, {}, {}", status.recommended_action(), context.health()));
    page.line("Started", moment::both(workflow.created_at, now));
    page.line("Finished", workflow.finished_at.map(|at| moment::both(at, now)));
    page.line("Input", json_text(input));
    for (name, result) in output.iter().flatten().take(OUTPUTS) {
        let result = result.as_ref().map_or_else(|| "nothing".into(), json_text);
        page.line("Output", format!("{name}: {result}"));
    }
    let shown = most.of(inspection);
    let left_out = inspection.tasks.len() - shown.len();
    let mut text = format!("{}\nSteps\n{}", page.render(), step::table(inspection, &shown, now, paint));
    if left_out > 0 {
        text += &format!("  … and {left_out} more; --steps and --items show more\n");
    }
    text + &format!("\nHistory\n{}", history_table(history, paint))
}

/// So many outputs are shown on a page; `--json` has all.
const OUTPUTS: usize = 20;

fn history_table(history: &[WorkflowEntry], paint: Paint) -> String {
    let mut table = Table::new(&["AT", "STATE", "BY", "NOTE"]);
    for WorkflowEntry { to, at, actor, note, .. } in history {
        let optional = |text: &Option<String>| Cell::from(text.as_deref().unwrap_or_default());
        table.row([moment::to_milli(*at).into(), (*to).into(), optional(actor), optional(note)]);
    }
    table.without_empty().render(paint, "  ")
}

/// A step that comes before another.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = Ancestor)]
pub(crate) struct AncestorJson<'a> {
    step: &'a str,
    id: String,
    distance: u32,
    state: &'static str,
    #[schema(value_type = serde_json::Value)]
    result: Option<Verbatim<'a>>,
}

impl<'a> AncestorJson<'a> {
    pub(crate) fn of(ancestor: &'a StepAncestor) -> Self {
        let StepAncestor { name, task, distance, state, result } = ancestor;
        Self {
            step: name,
            id: task.to_string(),
            distance: *distance,
            state: state.word(),
            result: result.as_ref().map(Verbatim),
        }
    }
}

/// Characters of a result in a table.
const RESULT_SHOWN: usize = 80;

/// Steps that come before another, one on each line.
pub(crate) fn ancestors_table(ancestors: &[StepAncestor], paint: Paint) -> String {
    let mut table = Table::new(&["STEP", "DISTANCE", "STATE", "RESULT"]);
    for StepAncestor { name, distance, state, result, .. } in ancestors {
        let result = result.as_ref().map(|json| short(&json_text(json), RESULT_SHOWN)).unwrap_or_default();
        table.row([(&**name).into(), (*distance).into(), (*state).into(), result.into()]);
    }
    table.without_empty().render(paint, "")
}
