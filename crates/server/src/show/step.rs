//! Steps of workflows and their items.

use serde::Serialize;
use utoipa::ToSchema;
use windlass::{BlockingReason, Inspection, Place, State, Task, Timestamp, Waits};

use super::time;
use crate::escape::short;
use crate::moment;
use crate::paint::Paint;
use crate::table::Table;

/// How many steps are shown at most, and how many items of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps {
    pub(crate) steps: usize,
    pub(crate) items: u32,
}

impl Steps {
    /// The tasks to show, in the order of their places.
    pub(crate) fn of(self, inspection: &Inspection) -> Vec<&Task> {
        let (mut shown, mut steps) = (Vec::new(), 0);
        for task in &inspection.tasks {
            let item = Place::of(task.id).item;
            steps += usize::from(item.is_none());
            if steps > self.steps {
                break;
            }
            if item.is_none_or(|item| item < self.items) {
                shown.push(task);
            }
        }
        shown
    }
}

/// So many of the steps that another waits for are named.
const NAMED: usize = 10;

/// A step that another waits for.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = UnmetStep)]
struct UnmetJson<'a> {
    step: &'a str,
    state: &'static str,
}

/// How far the items of a step are.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = Items)]
struct ItemsJson {
    settled: u32,
    of: u32,
}

/// A step, or an item of one.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = Step)]
pub(crate) struct StepJson<'a> {
    name: String,
    id: String,
    kind: &'a str,
    queue: &'a str,
    state: &'static str,
    attempt: u32,
    max_attempts: Option<u32>,
    level: u32,
    blocking_reason: Option<&'static str>,
    /// The first of those that it waits for.
    waiting_for: Vec<UnmetJson<'a>>,
    waiting_for_total: usize,
    items: Option<ItemsJson>,
    error: Option<&'a str>,
    due_at: Option<String>,
    started_at: Option<String>,
    finished_at: Option<String>,
}

/// The parents that a step waits for, if it waits for its parents.
fn unmet<'a>(inspection: &'a Inspection, task: &Task) -> Vec<(&'a str, State)> {
    match task.status.waits {
        Waits::Parents(_) => {
            inspection.unmet(Place::of(task.id).step).map(|(name, state)| (&**name, state)).collect()
        }
        _ => Vec::new(),
    }
}

impl<'a> StepJson<'a> {
    pub(crate) fn of(inspection: &'a Inspection, task: &'a Task) -> Self {
        let Task { id, spec, status } = task;
        let unmet = unmet(inspection, task);
        let items = match status.waits {
            Waits::Items { settled, of } => Some(ItemsJson { settled, of }),
            _ => None,
        };
        Self {
            name: inspection.name(task),
            id: id.to_string(),
            kind: &spec.kind,
            queue: &spec.queue,
            state: status.state.word(),
            attempt: status.attempt,
            max_attempts: spec.max_attempts.map(std::num::NonZero::get),
            level: inspection.record.blueprint.graph().level(Place::of(*id).step),
            blocking_reason: inspection.blocking_reason(task).map(BlockingReason::word),
            waiting_for_total: unmet.len(),
            waiting_for: unmet
                .into_iter()
                .take(NAMED)
                .map(|(step, state)| UnmetJson { step, state: state.word() })
                .collect(),
            items,
            error: status.error.as_deref(),
            due_at: time(status.due_at),
            started_at: time(status.started_at),
            finished_at: time(status.finished_at),
        }
    }
}

/// Characters of an error in a table.
const NOTE_SHOWN: usize = 80;

/// Steps waited for that a table names.
const SHOWN: usize = 3;

/// Steps and items, one on each line.
pub(crate) fn table(inspection: &Inspection, tasks: &[&Task], now: Timestamp, paint: Paint) -> String {
    let headers = ["STEP", "STATE", "ATTEMPT", "LEVEL", "BLOCKED BY", "WAITS FOR", "NOTE"];
    let mut table = Table::new(&headers);
    for task in tasks {
        let status = &task.status;
        let is_item = Place::of(task.id).item.is_some();
        // What is over is not kept from anything; its state says so.
        let is_blocked = !status.state.is_final() && !status.state.is_held();
        let blocked = inspection.blocking_reason(task).filter(|_| is_blocked);
        let name = inspection.name(task);
        table.row([
            if is_item { format!("  {name}") } else { name }.into(),
            status.state.into(),
            status.attempt.into(),
            inspection.record.blueprint.graph().level(Place::of(task.id).step).into(),
            blocked.map(BlockingReason::word).unwrap_or_default().into(),
            waits_for(inspection, task).into(),
            note(task, now).into(),
        ]);
    }
    table.without_empty().render(paint, "  ")
}

fn waits_for(inspection: &Inspection, task: &Task) -> String {
    match task.status.waits {
        Waits::Nothing => String::new(),
        Waits::Items { settled, of } => format!("items, {settled} of {of} are over"),
        Waits::Workflow => "its workflow".into(),
        Waits::Resume => "resume".into(),
        Waits::Parents(_) => {
            let unmet = unmet(inspection, task);
            let named = unmet.iter().take(SHOWN).map(|(name, state)| format!("{name} ({state})"));
            let named = named.collect::<Vec<_>>().join(", ");
            match unmet.len().saturating_sub(SHOWN) {
                0 => named,
                more => format!("{named} and {more} more"),
            }
        }
    }
}

fn note(task: &Task, now: Timestamp) -> String {
    let error = task.status.error.as_deref().map(|error| short(error, NOTE_SHOWN)).unwrap_or_default();
    match task.status.due_at {
        Some(due) if error.is_empty() => format!("due {}", moment::relative(due, now)),
        Some(due) => format!("retry {}: {error}", moment::relative(due, now)),
        None => error,
    }
}
