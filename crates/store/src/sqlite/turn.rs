//! A worker's or leader's turn: carrying out commands, then claiming.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use rusqlite::{OptionalExtension, params};
use windlass_core::{
    Before, Changes, Command, Json, Notes, Rejected, Scope, Task, TaskId, Timestamp, WorkerId, transition,
};

use super::failure::{failure, is_unreadable};
use super::row;
use super::tx::Tx;
use crate::error::{Error, Result};
use crate::request::{Claim, Claimed, Receipt, Turn, Turned};

impl Tx<'_, '_> {
    pub(super) fn turn(&mut self, turn: Turn) -> Result<Turned> {
        self.check_term(turn.term)?;
        let receipts = turn.commands.iter().map(|command| self.apply(command)).collect::<Result<_>>()?;
        self.follow_up()?;
        let claimed = match turn.claim {
            Some(claim) => match self.check_worker(&claim.worker)? {
                Ok(()) => Ok(self.claim(&claim)?),
                Err(rejected) => Err(rejected),
            },
            None => Ok(Vec::new()),
        };
        Ok(Turned { receipts, claimed })
    }

    /// Whether a worker may claim: known, and heard of recently enough.
    fn check_worker(&mut self, worker: &WorkerId) -> Result<Result<(), Rejected>> {
        let alive = self.alive_until(worker)?.is_some_and(|until| until > self.now);
        Ok(if alive { Ok(()) } else { Err(Rejected::InvalidWorker { worker: worker.clone() }) })
    }

    /// Carries out one command. The inner error is a refusal, which changes nothing and hinders nobody;
    /// the outer one is the database's, and undoes the whole turn.
    fn apply(&mut self, command: &Command) -> Result<Result<Receipt, Rejected>> {
        if let Command::Claim { worker, .. } = command
            && let Err(rejected) = self.check_worker(worker)?
        {
            return Ok(Err(rejected));
        }
        let id = command.task();
        let row = match self.task(id) {
            Ok(Some(row)) => row,
            Ok(None) => return Ok(Err(Rejected::NotFound { task: id })),
            Err(Error::Rejected(unreadable)) => return Ok(Err(unreadable)),
            Err(error) => return Err(error),
        };
        if let Some(first) = command.first(&row.1, self.now) {
            return match self.apply(&first)? {
                Ok(_) => self.apply(command),
                Err(rejected) => Ok(Err(rejected)),
            };
        }
        let (seq, task) = &*row;
        let notes;
        let mut before = Before::of(task);
        match command.scope() {
            Scope::Task => {}
            Scope::TaskAndNotes => {
                notes = match self.notes(*seq, task)? {
                    Ok(notes) => notes,
                    Err(rejected) => return Ok(Err(rejected)),
                };
                before.notes = notes.as_ref();
            }
            Scope::TaskAndQueue => before.paused = self.is_paused(&task.spec.namespace, &task.spec.queue)?,
            Scope::TaskAndHolder => {
                if let Some(holder) = &task.status.worker {
                    before.alive_until = self.alive_until(holder)?;
                }
            }
        }
        let workflow;
        if let Some(id) = task.spec.workflow.filter(|_| command.concerns_workflow()) {
            workflow = self.workflow(id)?;
            before.workflow = workflow.as_ref().map(|stored| &stored.workflow);
        }
        let above;
        if command.concerns_lanes_above() {
            above = self.lanes_above(task)?;
            before.lanes_above = above.as_ref();
        }
        let changes = match transition(&before, command, self.now) {
            Ok(changes) => changes,
            Err(rejected) => return Ok(Err(rejected)),
        };
        self.write_changes(*seq, task, &changes, command.is_by_holder())?;
        let status = changes.tasks.first().map_or(&task.status, |change| &change.after);
        Ok(Ok(Receipt {
            task: id,
            kind: task.spec.kind.clone(),
            state: status.state,
            attempt: status.attempt,
            lease: status.lease,
            changed: changes != Changes::default(),
        }))
    }

    /// What the present attempt of a task has told, which may be nothing; or that it cannot be read.
    fn notes(&mut self, seq: i64, task: &Task) -> Result<Result<Option<Notes>, Rejected>> {
        let found = self.sql.attempt_notes.query_row(params![seq, task.status.lease], row::notes).optional();
        match found {
            Ok(notes) => Ok(Ok(notes)),
            Err(error) if is_unreadable(&error) => {
                Ok(Err(Rejected::Unreadable { task: task.id, why: error.to_string() }))
            }
            Err(error) => Err(failure(error)),
        }
    }

    pub(super) fn write_changes(
        &mut self,
        seq: i64,
        task: &Task,
        changes: &Changes,
        by_holder: bool,
    ) -> Result<()> {
        self.touched.note(task, changes);
        if let Some(notes) = &changes.notes {
            self.write_with(|sql| &mut sql.put_notes, |statement| row::put_notes(statement, seq, notes))?;
        }
        for change in &changes.tasks {
            self.change(seq, task, change, by_holder)?;
        }
        if !changes.deleted.is_empty() {
            self.delete(seq, task)?;
        }
        if let Some(range) = &changes.cleared {
            for (seq, item) in self.steps(range.clone(), false)? {
                self.touched.note_gone(&item);
                self.delete(seq, &item)?;
                if item.status.slot || item.is_parked() {
                    self.give_slots(&item.spec)?;
                }
            }
        }
        for (task, payload, entry) in &changes.created {
            let seq = self.next_seq()?;
            self.insert(seq, task, Some(payload), None, entry)?;
        }
        Ok(())
    }

    /// Claims what is pending or, if nothing is, what is due and was not promoted yet.
    fn claim(&mut self, claim: &Claim) -> Result<Vec<Claimed>> {
        let claimed = self.claim_pending(claim)?;
        if claimed.is_empty() && self.promote_due(claim)? {
            return self.claim_pending(claim);
        }
        Ok(claimed)
    }

    /// Promotes what the worker could claim if somebody had promoted it, earliest first. Says whether there
    /// was anything.
    fn promote_due(&mut self, claim: &Claim) -> Result<bool> {
        let now = self.now.as_micros();
        if claim.limit == 0 || !self.sql.due.exists(params![now, 1]).map_err(failure)? {
            return Ok(false);
        }
        let mut due: Vec<(Option<Timestamp>, i64, TaskId)> = Vec::new();
        for queue in claim.queues.iter().collect::<BTreeSet<_>>() {
            if self.is_paused(&claim.namespace, queue)? {
                continue;
            }
            for kind in claim.kinds.iter().collect::<BTreeSet<_>>() {
                let values = params![&*claim.namespace, &**queue, &**kind, now];
                let rows = self.sql.due_to_claim.query_map(values, row::task).map_err(failure)?;
                let readable = rows.filter(|row| !row.as_ref().is_err_and(is_unreadable));
                for row in readable.take(claim.most_due()) {
                    let (seq, task) = row.map_err(failure)?;
                    due.push((task.status.due_at, seq, task.id));
                }
            }
        }
        due.sort_unstable();
        due.truncate(claim.most_due());
        for (.., task) in &due {
            let _ = self.apply(&Command::Promote { task: *task })?;
        }
        self.follow_up()?;
        Ok(!due.is_empty())
    }

    /// Claims the best of what can be claimed. Each queue and kind is its own range of the index, so nothing
    /// that the worker cannot run is ever read. A row that cannot be read is passed over, so that it holds up
    /// only itself.
    fn claim_pending(&mut self, claim: &Claim) -> Result<Vec<Claimed>> {
        let mut offered: Vec<(i64, Task)> = Vec::new();
        for queue in claim.queues.iter().collect::<BTreeSet<_>>() {
            if self.is_paused(&claim.namespace, queue)? {
                continue;
            }
            for kind in claim.kinds.iter().collect::<BTreeSet<_>>() {
                let values = [&*claim.namespace, &**queue, &**kind];
                let rows = self.sql.claimable.query_map(values, row::task).map_err(failure)?;
                let readable = rows.filter(|row| !row.as_ref().is_err_and(is_unreadable));
                for row in readable.take(claim.limit) {
                    offered.push(row.map_err(failure)?);
                }
            }
        }
        offered.sort_unstable_by_key(|(seq, task)| (Reverse(task.status.rank), *seq));
        offered.truncate(claim.limit);
        offered.into_iter().map(|(seq, task)| self.take(seq, task, &claim.worker)).collect()
    }

    /// Claims one task that was found claimable in this transaction.
    fn take(&mut self, seq: i64, mut task: Task, worker: &WorkerId) -> Result<Claimed> {
        let command = Command::Claim { task: task.id, worker: worker.clone() };
        let mut changes = transition(&Before::of(&task), &command, self.now)?;
        self.write_changes(seq, &task, &changes, true)?;
        self.ledger.rings.claimable -= u64::from(self.ledger.opened.remove(&task.id));
        if let Some(change) = changes.tasks.pop() {
            task.status = change.after;
        }
        let decode = |row: &rusqlite::Row<'_>| Ok(Json::stored(row.get_ref(0)?.as_str()?));
        let payload = self.read(|sql| &mut sql.payload, [seq], decode)?.unwrap_or_default();
        // Nobody has left anything behind for a first claim.
        let details = match task.status.lease {
            0 | 1 => None,
            _ => self.read(|sql| &mut sql.last_details, [seq], decode)?,
        };
        Ok(Claimed { task, payload, details })
    }
}
