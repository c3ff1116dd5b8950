//! Everything in a file looked at, in one snapshot: whether it is whole, can be read, and agrees with itself.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use windlass_core::{TaskId, history};

use super::failure::{failure, of_file};
use super::read::Snapshot;
use super::{backup, migrate, row};
use crate::error::Result;
use crate::request::{Page, Record};
use crate::workflow::{Blueprints, WorkflowFilter, WorkflowRecord};

/// What was found in a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Examination {
    /// Tasks that were read.
    pub tasks: u64,
    /// Workflows that were read.
    pub workflows: u64,
    /// What is wrong, each sort once.
    pub flaws: Vec<Flaw>,
}

/// Something that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Flaw {
    /// What, such as "a task cannot be read".
    pub what: &'static str,
    /// How often.
    pub times: u64,
    /// The first one.
    pub example: String,
}

impl Examination {
    fn flaw(&mut self, what: &'static str, example: impl Into<String>) {
        match self.flaws.iter_mut().find(|flaw| flaw.what == what) {
            Some(flaw) => flaw.times += 1,
            None => self.flaws.push(Flaw { what, times: 1, example: example.into() }),
        }
    }

    /// What was read, or that it cannot be.
    fn read<T: Default>(&mut self, what: &'static str, read: rusqlite::Result<T>) -> T {
        read.unwrap_or_else(|error| {
            self.flaw(what, error.to_string());
            T::default()
        })
    }
}

/// Looks at everything in the file at `path`, which may be in use. Blocks, and takes as long as reading all
/// of it takes.
pub fn examine(path: &Path) -> Result<Examination> {
    let named = |error| of_file(path, error);
    let connection = migrate::connect(path, OpenFlags::default() - OpenFlags::SQLITE_OPEN_CREATE)?;
    connection.pragma_update(None, "query_only", true).map_err(|error| named(failure(error)))?;
    let transaction = connection.unchecked_transaction().map_err(|error| named(failure(error)))?;
    let mut found = Examination::default();
    match backup::integrity(&connection) {
        Ok(problems) => problems.into_iter().for_each(|problem| found.flaw("the file is damaged", problem)),
        Err(error) => found.flaw("the file is damaged", error.to_string()),
    }
    tasks(&connection, &mut found);
    counts(&connection, &mut found);
    lanes(&connection, &mut found);
    let snapshot = Snapshot::of(&connection);
    workflows(&snapshot, &mut found);
    found.read("schedules cannot be read", snapshot.schedules());
    found.read("workers cannot be read", snapshot.workers());
    found.read("the leader cannot be read", snapshot.leader());
    found.read("access tokens cannot be read", snapshot.access_tokens());
    found.read("the numbers of tasks cannot be read", snapshot.counts());
    drop(transaction);
    Ok(found)
}

/// Every task: that it can be read, and that its history folds to it.
fn tasks(connection: &Connection, found: &mut Examination) {
    let snapshot = Snapshot::of(connection);
    let id = |row: &rusqlite::Row<'_>| Ok((row::id(row, 0)?, row.get::<_, bool>(1)?));
    let all: rusqlite::Result<Vec<(TaskId, bool)>> =
        snapshot.all("SELECT id, is_step = 0 AND NOT EXISTS (SELECT 1 FROM payloads WHERE task = seq) FROM tasks ORDER BY seq", [], id);
    for (id, lacks_payload) in found.read("tasks cannot be listed", all) {
        match snapshot.record(id) {
            Ok(Some(record)) => {
                found.tasks += 1;
                if let Some(why) = disagreement(&record) {
                    found.flaw("a history does not lead to where its task is", format!("task {id}: {why}"));
                }
            }
            Ok(None) => found.flaw("an index does not find a task", format!("task {id}")),
            Err(error) => found.flaw("a task cannot be read", format!("task {id}: {error}")),
        }
        if lacks_payload {
            found.flaw("a task has no payload", format!("task {id}"));
        }
    }
}

/// Where a history and its task disagree.
fn disagreement(Record { task, history, .. }: &Record) -> Option<String> {
    let status = &task.status;
    if let Some(fault) = history::fault(history) {
        return Some(fault);
    }
    let last = history.last()?;
    let leases = u32::try_from(history::attempts(history).len()).unwrap_or(u32::MAX);
    let compared = [
        (last.to == status.state, "its state", last.to.to_string(), status.state.to_string()),
        (last.seq == status.entries, "entries", last.seq.to_string(), status.entries.to_string()),
        (last.at == status.updated_at, "its last change", last.at.to_string(), status.updated_at.to_string()),
        (leases == status.lease, "claims", leases.to_string(), status.lease.to_string()),
        (
            history::attempts_used(history) == status.attempt,
            "attempts",
            history::attempts_used(history).to_string(),
            status.attempt.to_string(),
        ),
    ];
    let differs = compared.into_iter().find(|(same, ..)| !same);
    differs.map(|(_, what, history, row)| format!("{what}: {history} by its history, {row} by its row"))
}

/// The numbers that are kept beside the rows.
fn counts(connection: &Connection, found: &mut Examination) {
    let compare = |table: &str, number: &str, columns: &str, rows: &str| {
        format!(
            "SELECT {columns}, sum(kept), sum(found) FROM (SELECT {columns}, {number} AS kept, 0 AS found FROM {table} \
             UNION ALL SELECT {columns}, 0, count(*) FROM {rows} GROUP BY {columns}) GROUP BY {columns} HAVING sum(kept) <> sum(found)"
        )
    };
    let snapshot = Snapshot::of(connection);
    let of_tasks = compare("counts", "tasks", "namespace, queue, kind, is_step, state", "tasks");
    let wrong: rusqlite::Result<Vec<String>> = snapshot.all(&of_tasks, [], |row| {
        let (kept, rows): (i64, i64) = (row.get(5)?, row.get(6)?);
        let (kind, state): (String, String) = (row.get(2)?, row.get(4)?);
        Ok(format!("{state} tasks of kind {kind:?}: {kept} kept, {rows} rows"))
    });
    for wrong in found.read("numbers of tasks cannot be compared", wrong) {
        found.flaw("a number of tasks is not the number of rows", wrong);
    }
    let of_workflows = compare("workflow_counts", "workflows", "namespace, name, state", "workflows");
    let wrong: rusqlite::Result<Vec<String>> = snapshot.all(&of_workflows, [], |row| {
        let (kept, rows): (i64, i64) = (row.get(3)?, row.get(4)?);
        let (name, state): (String, String) = (row.get(1)?, row.get(2)?);
        Ok(format!("{state} workflows {name:?}: {kept} kept, {rows} rows"))
    });
    for wrong in found.read("numbers of workflows cannot be compared", wrong) {
        found.flaw("a number of workflows is not the number of rows", wrong);
    }
}

/// The slots of lanes: none beyond the limit, none with a task that is not in progress, and nobody waiting
/// beside a free one.
fn lanes(connection: &Connection, found: &mut Examination) {
    let snapshot = Snapshot::of(connection);
    let named = |row: &rusqlite::Row<'_>| {
        let (namespace, lane, taken): (String, String, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(format!("lane {lane:?} of namespace {namespace:?}, {taken} in progress"))
    };
    let in_progress = "state = 'pending' OR state = 'claimed' OR state = 'running' OR waits IS 'workflow' \
        OR (lane_strict = 1 AND due_at IS NOT NULL)";
    let overfull = "SELECT namespace, lane, count(*) AS taken FROM tasks WHERE slot = 1 GROUP BY namespace, lane \
        HAVING taken > max(lane_limit)";
    let parked = "SELECT h.namespace, h.lane, (SELECT count(*) FROM tasks t \
        WHERE t.namespace = h.namespace AND t.lane = h.lane AND t.slot = 1) AS taken, h.lane_limit, min(h.seq) FROM tasks h \
        WHERE h.lane IS NOT NULL AND h.slot = 0 AND h.state = 'pending' GROUP BY h.namespace, h.lane HAVING taken < h.lane_limit";
    let lost = format!(
        "SELECT namespace, lane, count(*) FROM tasks WHERE slot = 1 AND NOT ({in_progress}) GROUP BY namespace, lane"
    );
    for (what, sql) in [
        ("a lane has more tasks in progress than its limit", overfull),
        ("a task waits beside a free slot of its lane", parked),
        ("a task that is not in progress holds a slot", &lost),
    ] {
        for lane in found.read("lanes cannot be read", snapshot.all(sql, [], named)) {
            found.flaw(what, lane);
        }
    }
}

/// Whether the history of a workflow has no gaps and leads to where it is.
fn folds(WorkflowRecord { workflow, history, .. }: &WorkflowRecord) -> bool {
    let is_whole = history.iter().map(|entry| entry.seq).eq(1..=workflow.entries);
    is_whole && history.last().is_some_and(|last| last.to == workflow.state)
}

fn workflows(snapshot: &Snapshot<'_>, found: &mut Examination) {
    let without_input =
        "SELECT id FROM workflows WHERE NOT EXISTS (SELECT 1 FROM inputs WHERE workflow = seq)";
    let lacking = snapshot.all(without_input, [], |row| row.get::<_, Vec<u8>>(0));
    for id in found.read("inputs cannot be read", lacking) {
        let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        found.flaw("a workflow has no input", format!("workflow {id}"));
    }
    let (blueprints, mut page) =
        (Blueprints::default(), Page { limit: 1_000, oldest_first: true, after: None });
    loop {
        let listing = match snapshot.workflows(&WorkflowFilter::default(), page) {
            Ok(listing) => listing,
            Err(error) => return found.flaw("workflows cannot be read", error.to_string()),
        };
        for workflow in &listing.workflows {
            found.workflows += 1;
            match snapshot.workflow(&blueprints, workflow.id) {
                Ok(Some(record)) if !folds(&record) => {
                    let id = workflow.id;
                    found.flaw("a history does not lead to where its workflow is", format!("workflow {id}"));
                }
                Ok(_) => {}
                Err(error) => {
                    found.flaw("a workflow cannot be read", format!("workflow {}: {error}", workflow.id));
                }
            }
        }
        page.after = listing.next;
        if page.after.is_none() {
            return;
        }
    }
}
