//! One caller's work inside the writer's transaction: loading rows, writing what the core decided.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use rusqlite::{Connection, OptionalExtension, Params, Row, Statement, params};
use windlass_core::{
    Entry, Json, Name, Rejected, Retention, Spec, State, Status, Task, TaskChange, TaskId, Timestamp,
    WorkerId, limits,
};

use super::failure::{failure, is_unreadable};
use super::row::{self, Width};
use crate::error::Result;
use crate::request::Rings;
use crate::workflow::{Blueprints, Tally, Touched};

/// Where a test may look, or fail, around every write: the statement's name, and whether it is about to run.
pub(super) type Probe = std::sync::Arc<dyn Fn(&'static str, bool) + Send + Sync>;

/// A prepared statement that writes.
pub(super) struct Write<'c> {
    name: &'static str,
    statement: Statement<'c>,
}

macro_rules! statements {
    (read: $($read:ident)*; write: $($write:ident)*;) => {
        /// Every statement of the writer, prepared once.
        pub(super) struct Statements<'c> {
            $(pub(super) $read: Statement<'c>,)*
            $(pub(super) $write: Write<'c>,)*
        }

        impl<'c> Statements<'c> {
            pub(super) fn prepare(connection: &'c Connection) -> rusqlite::Result<Self> {
                Ok(Self {
                    $($read: connection.prepare(include_str!(concat!("sql/", stringify!($read), ".sql")))?,)*
                    $($write: Write {
                        name: stringify!($write),
                        statement: connection.prepare(include_str!(concat!("sql/", stringify!($write), ".sql")))?,
                    },)*
                })
            }
        }
    };
}

statements! {
    read: workflow_by_id has_workflow has_tasks_between workflow_by_key workflow_of_step expired_workflows definition_by_version newest_definition
        same_definition definition_versions definition_content steps_between unsettled_between count_steps result_by_id
        task_by_id task_by_key payload claimable due due_to_claim lane_head lane_taken next_parked_lane last_sequence is_paused
        has_entity holder leader last_heartbeat expired attempt_notes last_details schedule count_schedules listened_until other_access_tokens access_token;
    write: insert_task insert_payload insert_history update_status claim_task end_task delete_task add_count sub_count give_slot
        set_sequence put_notes put_worker heartbeat delete_worker forget_workers set_back_workers set_back_tasks put_leader pause_queue resume_queue put_entity delete_entity
        put_schedule delete_schedule set_waits delete_steps put_workflow insert_input insert_workflow_history delete_workflow
        insert_definition delete_definition count_workflows add_activity forget_activity insert_event listen begin_listening forget_events delete_events insert_access_token
        delete_access_token rotate_access_token touch_access_token note_access_tokens insert_audit release_audit delete_audit;
}

/// What a transaction keeps in memory until its end: one write per row that everyone in it touches.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    /// By how much the number of tasks of a sort has changed. A list, because a transaction sees few sorts
    /// and looks them up for every task.
    counts: Vec<(Sort, i64)>,
    /// The last number given to a task, once it was read.
    sequence: Option<i64>,
    /// What is counted about workflows.
    pub(super) tally: Tally,
    /// What is news for [`watch`](crate::Store::watch).
    pub(super) rings: Rings,
    /// What has become claimable: if the same transaction claims it, nobody need come for it.
    pub(super) opened: BTreeSet<TaskId>,
    /// Until when changes are told to those who listen.
    pub(super) listened_until: Timestamp,
}

/// What tasks are counted by.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Sort {
    pub(super) namespace: Name,
    pub(super) queue: Name,
    pub(super) kind: Name,
    pub(super) is_step: bool,
    pub(super) state: State,
}

impl Ledger {
    /// Takes note of changed numbers.
    pub(super) fn count_all(&mut self, counts: Vec<(Sort, i64)>) {
        self.counts.extend(counts);
    }
}

/// Tasks that workers of this process hold, so that a finish need not read what its claim has just written.
/// The writer is the only one in its process and forgets everything when another process commits or work is
/// undone, so what is here is what is in the table.
#[derive(Debug, Default)]
pub(super) struct Held(HashMap<TaskId, Rc<(i64, Task)>>);

impl Held {
    /// More than a process works on at once; what is over is read from the table again.
    const MOST: usize = 4096;

    /// Takes note of a change of the task that was `before`.
    fn note(&mut self, seq: i64, before: &Task, after: &Status) {
        if after.state.is_held() && self.0.len() < Self::MOST {
            let task = Task { id: before.id, spec: before.spec.clone(), status: after.clone() };
            self.0.insert(before.id, Rc::new((seq, task)));
        } else {
            self.0.remove(&before.id);
        }
    }

    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

/// One caller's work.
pub(super) struct Tx<'t, 'c> {
    pub(super) sql: &'t mut Statements<'c>,
    pub(super) held: &'t mut Held,
    pub(super) ledger: Ledger,
    /// What was done to tasks of workflows and is not followed up yet.
    pub(super) touched: Touched,
    pub(super) blueprints: &'t Blueprints,
    pub(super) now: Timestamp,
    pub(super) probe: Option<&'t Probe>,
}

impl<'c> Tx<'_, 'c> {
    /// Runs a statement that writes, with `run` binding its values.
    pub(super) fn write_with(
        &mut self,
        pick: impl for<'x> FnOnce(&'x mut Statements<'c>) -> &'x mut Write<'c>,
        run: impl FnOnce(&mut Statement<'c>) -> rusqlite::Result<usize>,
    ) -> Result<usize> {
        let Write { name, statement } = pick(self.sql);
        if let Some(probe) = self.probe {
            probe(name, true);
        }
        let changed = run(statement).map_err(failure)?;
        if let Some(probe) = self.probe {
            probe(name, false);
        }
        Ok(changed)
    }

    /// Runs a statement that writes.
    pub(super) fn write(
        &mut self,
        pick: impl for<'x> FnOnce(&'x mut Statements<'c>) -> &'x mut Write<'c>,
        values: impl Params,
    ) -> Result<usize> {
        self.write_with(pick, |statement| statement.execute(values))
    }

    /// The one row of a statement that reads, if there is one.
    pub(super) fn read<T>(
        &mut self,
        pick: impl for<'x> FnOnce(&'x mut Statements<'c>) -> &'x mut Statement<'c>,
        values: impl Params,
        decode: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        pick(self.sql).query_row(values, decode).optional().map_err(failure)
    }

    /// A task by its id, with its number.
    pub(super) fn task(&mut self, id: TaskId) -> Result<Option<Rc<(i64, Task)>>> {
        if let Some(held) = self.held.0.get(&id) {
            return Ok(Some(held.clone()));
        }
        let found = self.sql.task_by_id.query_row([id.as_bytes()], row::task).optional();
        let found = found.map_err(|error| match is_unreadable(&error) {
            true => Rejected::Unreadable { task: id, why: error.to_string() }.into(),
            false => failure(error),
        })?;
        Ok(found.map(Rc::new))
    }

    /// Until when a worker is alive; `None` if it is not registered.
    pub(super) fn alive_until(&mut self, worker: &WorkerId) -> Result<Option<Timestamp>> {
        self.read(|sql| &mut sql.holder, [worker.as_str()], row::alive_until)
    }

    pub(super) fn is_paused(&mut self, namespace: &Name, queue: &Name) -> Result<bool> {
        let row = self.read(|sql| &mut sql.is_paused, [&**namespace, &**queue], |_| Ok(()))?;
        Ok(row.is_some())
    }

    /// The next number for a task.
    pub(super) fn next_seq(&mut self) -> Result<i64> {
        let last = match self.ledger.sequence {
            Some(last) => last,
            None => self.read(|sql| &mut sql.last_sequence, [], |row| row.get(0))?.unwrap_or(0),
        };
        self.ledger.sequence = Some(last + 1);
        Ok(last + 1)
    }

    fn count(&mut self, spec: &Spec, state: State, by: i64) {
        let Spec { namespace, queue, kind, workflow, .. } = spec;
        let is_step = workflow.is_some();
        let same = |(sort, _): &&mut (Sort, i64)| {
            (sort.state, sort.is_step) == (state, is_step)
                && sort.kind == *kind
                && sort.queue == *queue
                && sort.namespace == *namespace
        };
        match self.ledger.counts.iter_mut().find(same) {
            Some((_, count)) => *count += by,
            None => {
                let (namespace, queue, kind) = (namespace.clone(), queue.clone(), kind.clone());
                self.ledger.counts.push((Sort { namespace, queue, kind, is_step, state }, by));
            }
        }
    }

    /// Adds a new task and the first row of its history; says `false` if its id exists.
    pub(super) fn insert(
        &mut self,
        seq: i64,
        task: &Task,
        payload: Option<&Json>,
        result: Option<&Json>,
        entry: &Entry,
    ) -> Result<bool> {
        let new = self.write_with(
            |sql| &mut sql.insert_task,
            |statement| row::insert_task(statement, seq, task, result.map(Json::as_str)),
        )?;
        if new == 0 {
            return Ok(false);
        }
        if let Some(payload) = payload {
            self.write(|sql| &mut sql.insert_payload, params![seq, payload.as_str()])?;
        }
        self.write_with(
            |sql| &mut sql.insert_history,
            |statement| row::insert_history(statement, seq, entry),
        )?;
        self.tell(task, &task.status)?;
        self.count(&task.spec, task.status.state, 1);
        self.ledger.rings.claimable += u64::from(task.is_claimable());
        self.ledger.rings.timed += u64::from(task.status.due_at.is_some());
        if task.is_parked() {
            self.give_slots(&task.spec)?;
        }
        Ok(true)
    }

    /// Writes what the core decided about one task, which was loaded as `before`, because its holder said so
    /// or somebody else, and gives the slots that are then free.
    pub(super) fn change(
        &mut self,
        seq: i64,
        before: &Task,
        change: &TaskChange,
        by_holder: bool,
    ) -> Result<()> {
        self.write_change(seq, before, change, by_holder)?;
        if change.moves_lane(before) {
            self.give_slots(&before.spec)?;
        }
        Ok(())
    }

    /// The same, without giving slots: what was loaded together stays as it was loaded until all of it is
    /// written.
    pub(super) fn write_change(
        &mut self,
        seq: i64,
        before: &Task,
        change: &TaskChange,
        by_holder: bool,
    ) -> Result<()> {
        let result = change.result.as_ref().map(|result| result.as_str());
        let after = &change.after;
        // A task without a slot may have been given one since it was loaded: then all of it is to be written.
        let may_have_slot = before.spec.lane.is_some() && !before.status.slot;
        let width = if may_have_slot { Width::Full } else { Width::of(&before.status, after) };
        match width {
            Width::Claim if result.is_none() => self
                .write_with(|sql| &mut sql.claim_task, |statement| row::claim_task(statement, seq, after))?,
            Width::End => self.write_with(
                |sql| &mut sql.end_task,
                |statement| row::end_task(statement, seq, after, result),
            )?,
            Width::Claim | Width::Full => self.write_with(
                |sql| &mut sql.update_status,
                |statement| row::update_status(statement, seq, after, result),
            )?,
        };
        for entry in &change.entries {
            self.write_with(
                |sql| &mut sql.insert_history,
                |statement| row::insert_history(statement, seq, entry),
            )?;
        }
        if (after.state, after.lease) != (before.status.state, before.status.lease) {
            self.tell(before, after)?;
        }
        self.held.note(seq, before, after);
        self.count(&before.spec, before.status.state, -1);
        self.count(&before.spec, after.state, 1);
        if self.ledger.rings.note(before, after, by_holder) {
            self.ledger.opened.insert(before.id);
        }
        Ok(())
    }

    /// Removes a final task with its payload, history, notes and key.
    pub(super) fn delete(&mut self, seq: i64, task: &Task) -> Result<()> {
        self.write(|sql| &mut sql.delete_task, [seq])?;
        self.count(&task.spec, task.status.state, -1);
        Ok(())
    }

    /// Removes what retention does not keep, at most `limit` tasks.
    pub(super) fn prune(&mut self, retention: &Retention, limit: usize) -> Result<usize> {
        self.write(|sql| &mut sql.forget_workers, [self.now.minus(limits::DEAD_WORKERS).as_micros()])?;
        self.prune_events()?;
        self.prune_audit()?;
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut old: Vec<(i64, i64, Sort)> = Vec::new();
        for (state, before) in retention.cutoffs(self.now) {
            let values = params![state.word(), before.as_micros(), most];
            let rows = self.sql.expired.query_map(values, |row| {
                let (namespace, queue, kind) = (row::name(row, 2)?, row::name(row, 3)?, row::name(row, 4)?);
                Ok((row.get(0)?, row.get(1)?, Sort { namespace, queue, kind, is_step: false, state }))
            });
            for row in rows.map_err(failure)? {
                old.push(row.map_err(failure)?);
            }
        }
        old.sort_unstable();
        old.truncate(limit);
        let pruned = old.len();
        for (_, seq, sort) in old {
            self.write(|sql| &mut sql.delete_task, [seq])?;
            self.ledger.counts.push((sort, -1));
        }
        let pruned = pruned + self.prune_workflows(retention, limit - pruned)?;
        Ok(pruned)
    }

    /// Writes what the ledger gathered. Called once, before the commit.
    pub(super) fn settle(&mut self) -> Result<()> {
        let mut counts = BTreeMap::<Sort, i64>::new();
        for (sort, by) in std::mem::take(&mut self.ledger.counts) {
            *counts.entry(sort).or_default() += by;
        }
        for (Sort { namespace, queue, kind, is_step, state }, by) in counts {
            let values = params![&*namespace, &*queue, &*kind, is_step, state.word(), by.abs()];
            match by {
                1.. => self.write(|sql| &mut sql.add_count, values)?,
                0 => 0,
                _ => self.write(|sql| &mut sql.sub_count, values)?,
            };
        }
        let Tally { states, activity } = std::mem::take(&mut self.ledger.tally);
        for ((namespace, name, state), by) in states.into_iter().filter(|(_, by)| *by != 0) {
            self.write(|sql| &mut sql.count_workflows, params![&*namespace, &*name, state.word(), by])?;
        }
        for ((minute, namespace), one) in activity {
            let [a, b, c, d, e, f, g] =
                <[u64; 7]>::from(one).map(|number| i64::try_from(number).unwrap_or(i64::MAX));
            let values = params![minute.as_micros(), &*namespace, a, b, c, d, e, f, g];
            self.write(|sql| &mut sql.add_activity, values)?;
        }
        if let Some(last) = self.ledger.sequence.take() {
            self.write(|sql| &mut sql.set_sequence, [last])?;
        }
        Ok(())
    }
}
