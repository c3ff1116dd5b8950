//! Between rows of workflows and definitions and values of the core.

use rusqlite::types::ValueRef;
use rusqlite::{Row, Statement, params};
use windlass_core::{Counts, TaskId, Timestamp, Workflow, WorkflowEntry, WorkflowId, WorkflowState};

use super::row::{foreign, id, name, optional_time, parse, time};
use crate::workflow::DefinitionLine;

/// A workflow as it is stored.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) seq: i64,
    /// The number of its definition.
    pub(super) definition: i64,
    pub(super) workflow: Workflow,
}

fn optional_id(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<TaskId>> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        _ => Ok(Some(id(row, column)?)),
    }
}

pub(super) fn workflow_id(row: &Row<'_>, column: usize) -> rusqlite::Result<WorkflowId> {
    Ok(WorkflowId::from_bytes(*id(row, column)?.as_bytes()))
}

/// A row of `workflows`.
pub(super) fn stored(row: &Row<'_>) -> rusqlite::Result<Stored> {
    let owner: Option<String> = row.get(22)?;
    let workflow = Workflow {
        id: workflow_id(row, 1)?,
        namespace: name(row, 2)?,
        name: name(row, 3)?,
        version: row.get(4)?,
        key: row.get(6)?,
        priority: row.get(7)?,
        parent: optional_id(row, 8)?,
        nesting: row.get(9)?,
        origin: optional_id(row, 10)?.map(|origin| WorkflowId::from_bytes(*origin.as_bytes())),
        created_at: time(row, 11)?,
        state: parse::<WorkflowState>(row, 12)?,
        paused: row.get(13)?,
        counts: Counts {
            waiting: row.get(14)?,
            nested: row.get(15)?,
            active: row.get(16)?,
            timed: row.get(17)?,
            done: row.get(18)?,
            skipped: row.get(19)?,
            cancelled: row.get(20)?,
            failed: row.get(21)?,
        },
        owner: owner.zip(optional_time(row, 23)?),
        updated_at: time(row, 24)?,
        finished_at: optional_time(row, 25)?,
        entries: row.get(26)?,
        retries: row.get(27)?,
    };
    Ok(Stored { seq: row.get(0)?, definition: row.get(5)?, workflow })
}

pub(super) fn put(statement: &mut Statement<'_>, stored: &Stored) -> rusqlite::Result<usize> {
    let Stored { seq, definition, workflow } = stored;
    let counts = &workflow.counts;
    statement.execute(params![
        seq,
        workflow.id.as_bytes(),
        &*workflow.namespace,
        &*workflow.name,
        workflow.version,
        definition,
        workflow.key,
        workflow.priority,
        workflow.parent.as_ref().map(TaskId::as_bytes),
        workflow.nesting,
        workflow.origin.as_ref().map(WorkflowId::as_bytes),
        workflow.created_at.as_micros(),
        workflow.state.word(),
        workflow.paused,
        counts.waiting,
        counts.nested,
        counts.active,
        counts.timed,
        counts.done,
        counts.skipped,
        counts.cancelled,
        counts.failed,
        workflow.owner.as_ref().map(|(owner, _)| owner),
        workflow.owner.as_ref().map(|(_, until)| until.as_micros()),
        workflow.updated_at.as_micros(),
        workflow.finished_at.map(Timestamp::as_micros),
        workflow.entries,
        workflow.retries,
        workflow.rank(),
    ])
}

pub(super) fn insert_entry(
    statement: &mut Statement<'_>,
    workflow: i64,
    entry: &WorkflowEntry,
) -> rusqlite::Result<usize> {
    let WorkflowEntry { seq, from: _, to, at, actor, note } = entry;
    statement.execute(params![workflow, seq, to.word(), at.as_micros(), actor, note])
}

/// A row of the history; `from` is the entry before it, which is not stored twice.
pub(super) fn entry(row: &Row<'_>, from: Option<WorkflowState>) -> rusqlite::Result<WorkflowEntry> {
    Ok(WorkflowEntry {
        seq: row.get(0)?,
        from,
        to: parse(row, 1)?,
        at: time(row, 2)?,
        actor: row.get(3)?,
        note: row.get(4)?,
    })
}

/// A row that tells of a definition: its number, version, content and when it was made.
pub(super) fn definition(row: &Row<'_>) -> rusqlite::Result<(i64, String, String, Timestamp)> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?, time(row, 3)?))
}

pub(super) fn definition_line(row: &Row<'_>) -> rusqlite::Result<DefinitionLine> {
    Ok(DefinitionLine {
        name: name(row, 0)?,
        version: row.get(1)?,
        steps: row.get(2)?,
        created_at: time(row, 3)?,
    })
}

/// The error for a definition that this version cannot read.
pub(super) fn unreadable(why: String) -> rusqlite::Error {
    foreign(0, std::io::Error::other(why))
}
