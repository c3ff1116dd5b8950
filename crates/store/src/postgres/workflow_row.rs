//! Between rows of workflows and definitions and values of the core.

use std::time::Duration;

use tokio_postgres::Row;
use uuid::Uuid;
use windlass_core::{
    Blueprint, Counts, Execution, Join, Step, TaskId, Workflow, WorkflowEntry, WorkflowId, WorkflowState,
};

use super::board::small;
use super::row::{
    Foreign, foreign, get, id, moment, name, optional_time, parse, signed, time, timestamp, unsigned, uuid,
};
use super::tx::{Args, Tx, args};
use crate::workflow::{DefinitionLine, Tally};

type Read<T> = Result<T, Foreign>;

/// A workflow as it is stored.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) seq: i64,
    /// The number of its definition.
    pub(super) definition: i64,
    pub(super) workflow: Workflow,
}

/// A workflow whose row is locked, and what is yet to be written about it.
#[derive(Clone, Debug)]
pub(super) struct Locked {
    pub(super) stored: Stored,
    is_changed: bool,
    entries: Vec<WorkflowEntry>,
}

impl Locked {
    pub(super) fn new(stored: Stored) -> Self {
        Self { stored, is_changed: false, entries: Vec::new() }
    }

    pub(super) fn change(&mut self, after: Workflow, entries: Vec<WorkflowEntry>) {
        self.stored.workflow = after;
        self.is_changed = true;
        self.entries.extend(entries);
    }

    /// Sends what is to be written. Says how many statements that were.
    pub(super) async fn send(&mut self, tx: &mut Tx) -> usize {
        let mut sent = 0;
        if std::mem::take(&mut self.is_changed) {
            let mut values = args![self.stored.seq => INT8];
            values.extend(changing_args(&self.stored.workflow));
            tx.send(|sql| &sql.update_workflow, values).await;
            sent += 1;
        }
        let entries = std::mem::take(&mut self.entries);
        if !entries.is_empty() {
            tx.send(|sql| &sql.tell_workflow, entry_args(self.stored.seq, &entries)).await;
            sent += 1;
        }
        sent
    }
}

/// Sends what was counted about workflows. Says how many statements that were.
pub(super) async fn send_tally(tx: &mut Tx, tally: Tally) -> usize {
    let mut sent = 0;
    let states: Vec<_> = tally.states.into_iter().filter(|(_, by)| *by != 0).collect();
    if !states.is_empty() {
        let values = args![
            states.iter().map(|((namespace, ..), _)| namespace.to_string()).collect::<Vec<_>>() => TEXT_ARRAY,
            states.iter().map(|((_, name, _), _)| name.to_string()).collect::<Vec<_>>() => TEXT_ARRAY,
            states.iter().map(|((.., state), _)| state.word()).collect::<Vec<_>>() => TEXT_ARRAY,
            states.iter().map(|(_, by)| *by).collect::<Vec<i64>>() => INT8_ARRAY,
        ];
        tx.send(|sql| &sql.count_workflows, values).await;
        sent += 1;
    }
    for ((minute, namespace), one) in tally.activity {
        let mut values = args![moment(minute) => TIMESTAMPTZ, namespace.to_string() => TEXT];
        for number in <[u64; 7]>::from(one) {
            values.extend(args![signed(number) => INT8]);
        }
        tx.send(|sql| &sql.add_activity, values).await;
        sent += 1;
    }
    sent
}

pub(super) fn wide(id: WorkflowId) -> Uuid {
    Uuid::from_bytes(*id.as_bytes())
}

pub(super) fn workflow_id(row: &Row, column: usize) -> Read<WorkflowId> {
    Ok(WorkflowId::from_bytes(*id(row, column)?.as_bytes()))
}

/// The column after those of a workflow.
pub(super) const AFTER_WORKFLOW: usize = 28;

/// A row of `workflows`.
pub(super) fn stored(row: &Row) -> Read<Stored> {
    let owner: Option<String> = get(row, 22)?;
    let optional_id = |column| get::<Option<Uuid>>(row, column).map(|id| id.map(|id| *id.as_bytes()));
    let workflow = Workflow {
        id: workflow_id(row, 1)?,
        namespace: name(row, 2)?,
        name: name(row, 3)?,
        version: get(row, 4)?,
        key: get(row, 6)?,
        priority: get(row, 7)?,
        parent: optional_id(8)?.map(TaskId::from_bytes),
        nesting: unsigned(row, 9)?,
        origin: optional_id(10)?.map(WorkflowId::from_bytes),
        created_at: time(row, 11)?,
        state: parse::<WorkflowState>(row, 12)?,
        paused: get(row, 13)?,
        counts: Counts {
            waiting: unsigned(row, 14)?,
            nested: unsigned(row, 15)?,
            active: unsigned(row, 16)?,
            timed: unsigned(row, 17)?,
            done: unsigned(row, 18)?,
            skipped: unsigned(row, 19)?,
            cancelled: unsigned(row, 20)?,
            failed: unsigned(row, 21)?,
        },
        owner: owner.zip(optional_time(row, 23)?),
        updated_at: time(row, 24)?,
        finished_at: optional_time(row, 25)?,
        entries: u32::try_from(get::<i32>(row, 26)?).map_err(|error| foreign(row, 26, error))?,
        retries: unsigned(row, 27)?,
    };
    Ok(Stored { seq: get(row, 0)?, definition: get(row, 5)?, workflow })
}

/// What can change about a workflow.
fn changing_args(workflow: &Workflow) -> Args {
    let counts = &workflow.counts;
    let owner = workflow.owner.as_ref();
    args![
        workflow.state.word() => TEXT,
        workflow.paused => BOOL,
        i64::from(counts.waiting) => INT8,
        i64::from(counts.nested) => INT8,
        i64::from(counts.active) => INT8,
        i64::from(counts.timed) => INT8,
        i64::from(counts.done) => INT8,
        i64::from(counts.skipped) => INT8,
        i64::from(counts.cancelled) => INT8,
        i64::from(counts.failed) => INT8,
        owner.map(|(owner, _)| owner.clone()) => TEXT,
        owner.map(|(_, until)| moment(*until)) => TIMESTAMPTZ,
        moment(workflow.updated_at) => TIMESTAMPTZ,
        workflow.finished_at.map(moment) => TIMESTAMPTZ,
        small(workflow.entries) => INT4,
        i64::from(workflow.retries) => INT8,
        workflow.rank() => INT8,
    ]
}

/// What `insert_workflow` is given.
pub(super) fn insert_args(workflow: &Workflow, definition: i64, input: &str) -> Args {
    let mut values = args![
        wide(workflow.id) => UUID,
        workflow.namespace.to_string() => TEXT,
        workflow.name.to_string() => TEXT,
        workflow.version.clone() => TEXT,
        definition => INT8,
        workflow.key.clone() => TEXT,
        workflow.priority => INT4,
        workflow.parent.map(uuid) => UUID,
        i64::from(workflow.nesting) => INT8,
        workflow.origin.map(wide) => UUID,
        moment(workflow.created_at) => TIMESTAMPTZ,
    ];
    values.extend(changing_args(workflow));
    values.extend(args![input.to_owned() => TEXT]);
    values
}

/// What a definition says about its steps, in columns.
pub(super) fn graph_args(blueprint: &Blueprint) -> Args {
    let (steps, graph) = (&blueprint.definition().steps, blueprint.graph());
    let number = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
    let (mut places, mut parents) = (vec![0_i32], Vec::new());
    for step in 0..blueprint.len() {
        parents.extend(graph.parents(step).iter().map(|parent| number(*parent)));
        places.push(i32::try_from(parents.len()).unwrap_or(i32::MAX));
    }
    let needed = |(at, step): (u32, &Step)| {
        number(step.join.needed(u32::try_from(graph.parents(at).len()).unwrap_or(u32::MAX)))
    };
    args![
        steps.iter().map(|step| step.name.to_string()).collect::<Vec<_>>() => TEXT_ARRAY,
        steps.iter().map(|step| step.kind().to_string()).collect::<Vec<_>>() => TEXT_ARRAY,
        (0..blueprint.len()).map(|step| number(graph.level(step))).collect::<Vec<_>>() => INT4_ARRAY,
        (0..).zip(steps).map(needed).collect::<Vec<_>>() => INT4_ARRAY,
        steps.iter().map(|step| step.join == Join::AllDone).collect::<Vec<_>>() => BOOL_ARRAY,
        places => INT4_ARRAY,
        parents => INT4_ARRAY,
    ]
}

/// What `tell_workflow` is given.
pub(super) fn entry_args(workflow: i64, entries: &[WorkflowEntry]) -> Args {
    fn each<T>(entries: &[WorkflowEntry], of: impl Fn(&WorkflowEntry) -> T) -> Vec<T> {
        entries.iter().map(of).collect()
    }
    args![
        workflow => INT8,
        each(entries, |entry| small(entry.seq)) => INT4_ARRAY,
        each(entries, |entry| entry.to.word()) => TEXT_ARRAY,
        each(entries, |entry| moment(entry.at)) => TIMESTAMPTZ_ARRAY,
        each(entries, |entry| entry.actor.clone()) => TEXT_ARRAY,
        each(entries, |entry| entry.note.clone()) => TEXT_ARRAY,
    ]
}

/// A row of the history; `from` is the entry before it, which is not stored twice.
pub(super) fn entry(row: &Row, from: Option<WorkflowState>) -> Read<WorkflowEntry> {
    Ok(WorkflowEntry {
        seq: u32::try_from(get::<i32>(row, 0)?).map_err(|error| foreign(row, 0, error))?,
        from,
        to: parse(row, 1)?,
        at: time(row, 2)?,
        actor: get(row, 3)?,
        note: get(row, 4)?,
    })
}

/// A row of what took how long.
pub(super) fn execution(row: &Row) -> Read<Execution> {
    let micros = |column| Ok(Duration::from_micros(unsigned(row, column)?));
    let ids = |column| get::<Option<Uuid>>(row, column).map(|id| id.map(|id| *id.as_bytes()));
    let (executions, timed): (u64, u32) = (unsigned(row, 6)?, unsigned(row, 7)?);
    Ok(Execution {
        namespace: name(row, 0)?,
        name: name(row, 1)?,
        version: get(row, 2)?,
        step: get(row, 3)?,
        workflow: ids(4)?.map(WorkflowId::from_bytes),
        task: ids(5)?.map(TaskId::from_bytes),
        executions,
        errors: unsigned(row, 8)?,
        average: micros(9)? / timed.max(1),
        max: micros(10)?,
        min: micros(11)?,
        steps: Execution::average_steps(unsigned(row, 12)?, executions),
        last_at: time(row, 13)?,
    })
}

pub(super) fn definition_line(row: &Row) -> Read<DefinitionLine> {
    Ok(DefinitionLine {
        name: name(row, 0)?,
        version: get(row, 1)?,
        steps: unsigned(row, 2)?,
        created_at: timestamp(get(row, 3)?),
    })
}
