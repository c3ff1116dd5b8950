//! What happens to rows: the plain way, without a thought for speed.

use windlass_core::{
    Before, Changes, Command, Entry, Json, Name, NewTask, OnConflict, Rejected, State, Task, TaskChange,
    TaskId, Term, Timestamp, WorkerId, WorkflowId, limits, set_back, transition,
};

use super::Rows;
use crate::error::Result;
use crate::request::{Claim, Claimed, Receipt, Record, Submitted, in_batch};

impl Rows {
    pub(super) fn record(&self, id: TaskId) -> Option<&Record> {
        self.tasks.get(self.seqs.get(&id)?)
    }

    pub(super) fn find(&self, namespace: &Name, kind: &Name, key: &str) -> Option<&Record> {
        self.tasks.values().find(|Record { task: Task { spec, .. }, .. }| {
            spec.namespace == *namespace && spec.kind == *kind && spec.key.as_deref() == Some(key)
        })
    }

    /// If the clock was set back, what was counted from the present is counted anew.
    pub(super) fn follow_clock(&mut self, now: Timestamp) {
        let last = self.workers.values().map(|worker| worker.heartbeat_at).max();
        let Some(by) = set_back(last, now) else { return };
        for worker in self.workers.values_mut() {
            worker.heartbeat_at = worker.heartbeat_at.min(now);
        }
        self.leader = self.leader.take().map(|leader| leader.set_back(by));
        for record in self.tasks.values_mut() {
            if let Some(due) = record.task.due_when_set_back(by, now) {
                record.task.status.due_at = Some(due);
            }
        }
        self.rings.timed += 1;
    }

    pub(super) fn check_term(&self, term: Option<Term>, now: Timestamp) -> Result<(), Rejected> {
        match term {
            Some(term) if !self.leader.as_ref().is_some_and(|leader| leader.is_current(term, now)) => {
                Err(Rejected::NotLeader { term })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn submit_all(&mut self, tasks: Vec<NewTask>, now: Timestamp) -> Result<Vec<Submitted>> {
        let (len, rings, mut submitted) = (tasks.len(), self.rings, Vec::with_capacity(tasks.len()));
        for (index, task) in tasks.into_iter().enumerate() {
            match self.submit(task, now) {
                Ok(one) => submitted.push(one),
                Err(rejected) => {
                    let created = submitted.iter().filter(|one| one.created);
                    created.for_each(|one| self.delete(one.id));
                    self.rings = rings;
                    return Err(in_batch(len, index, rejected));
                }
            }
        }
        Ok(submitted)
    }

    pub(super) fn submit(&mut self, new: NewTask, now: Timestamp) -> Result<Submitted, Rejected> {
        if let Some(key) = &new.key
            && let Some(Record { task, .. }) = self.find(&new.namespace, &new.kind, key)
        {
            return match new.on_conflict {
                OnConflict::Return => Ok(Submitted { id: task.id, state: task.status.state, created: false }),
                OnConflict::Reject => Err(Rejected::KeyConflict { key: key.clone(), existing: task.id }),
            };
        }
        if let Some(workflow) = WorkflowId::reserving(new.id)
            && self.workflow(workflow).is_some()
        {
            return Err(Rejected::IdReserved { task: new.id, workflow });
        }
        if self.seqs.contains_key(&new.id) {
            return Err(Rejected::IdConflict { task: new.id });
        }
        if let Some(entity) = new.required_entity()
            && !self.entities.contains(&(new.namespace.clone(), entity.clone()))
        {
            return Err(Rejected::UnknownEntity { entity: entity.as_str().into() });
        }
        let (task, payload, entry) = new.admit(now);
        let submitted = Submitted { id: task.id, state: task.status.state, created: true };
        self.insert(task, payload, None, entry);
        Ok(submitted)
    }

    pub(super) fn check_worker(&self, worker: &WorkerId, now: Timestamp) -> Result<(), Rejected> {
        match self.workers.get(worker) {
            Some(row) if row.is_alive(now) => Ok(()),
            _ => Err(Rejected::InvalidWorker { worker: worker.clone() }),
        }
    }

    pub(super) fn apply(&mut self, command: &Command, now: Timestamp) -> Result<Receipt, Rejected> {
        if let Command::Claim { worker, .. } = command {
            self.check_worker(worker, now)?;
        }
        let id = command.task();
        if let Some(first) = self.record(id).and_then(|record| command.first(&record.task, now)) {
            self.apply(&first, now)?;
        }
        let Some(Record { task, notes, .. }) = self.record(id) else {
            return Err(Rejected::NotFound { task: id });
        };
        let (task, notes) = (task.clone(), notes.clone());
        let above = command.concerns_lanes_above().then(|| self.lanes_above(&task)).flatten();
        let before = Before {
            task: &task,
            paused: self.is_paused(&task),
            notes: notes.last().filter(|notes| notes.lease == task.status.lease),
            alive_until: self.alive_until(&task),
            workflow: task.spec.workflow.and_then(|id| self.workflow(id)).map(|record| &record.workflow),
            lanes_above: above.as_ref(),
        };
        let changes = transition(&before, command, now)?;
        let changed = changes != Changes::default();
        self.touched.note(&task, &changes);
        self.write(id, changes, command.is_by_holder());
        let status = &self.record(id).map_or(&task, |record| &record.task).status;
        let (state, attempt, lease) = (status.state, status.attempt, status.lease);
        Ok(Receipt { task: id, kind: task.spec.kind.clone(), state, attempt, lease, changed })
    }

    pub(super) fn write(&mut self, id: TaskId, changes: Changes, by_holder: bool) {
        for id in changes.deleted {
            self.delete(id);
        }
        if let Some(notes) = changes.notes
            && let Some(record) = self.seqs.get(&id).and_then(|seq| self.tasks.get_mut(seq))
        {
            record.notes.retain(|known| known.lease != notes.lease);
            record.notes.push(notes);
        }
        for change in changes.tasks {
            self.write_change(change, by_holder);
        }
        if let Some(range) = changes.cleared {
            let items: Vec<Task> = self.in_range(range).cloned().collect();
            for item in items {
                self.touched.note_gone(&item);
                self.delete(item.id);
                self.give_slots(&item);
            }
        }
        for (task, payload, entry) in changes.created {
            self.insert(task, payload, None, entry);
        }
    }

    pub(super) fn write_change(&mut self, change: TaskChange, by_holder: bool) {
        let Some(record) = self.seqs.get(&change.id).and_then(|seq| self.tasks.get_mut(seq)) else { return };
        if self.rings.note(&record.task, &change.after, by_holder) {
            self.opened.insert(change.id);
        }
        record.task.status = change.after;
        record.result = change.result.or(record.result.take());
        record.history.extend(change.entries);
        let task = record.task.clone();
        self.give_slots(&task);
    }

    pub(super) fn insert(&mut self, task: Task, payload: Json, result: Option<Json>, entry: Entry) {
        self.last_seq += 1;
        self.seqs.insert(task.id, self.last_seq);
        self.rings.claimable += u64::from(task.is_claimable());
        self.rings.timed += u64::from(task.status.due_at.is_some());
        let (slots, history, notes) = (task.clone(), vec![entry], Vec::new());
        self.tasks.insert(self.last_seq, Record { task, payload, result, history, notes });
        self.give_slots(&slots);
    }

    pub(super) fn delete(&mut self, id: TaskId) {
        if let Some(seq) = self.seqs.remove(&id) {
            self.tasks.remove(&seq);
        }
    }

    pub(super) fn claim(&mut self, claim: &Claim, now: Timestamp) -> Result<Vec<Claimed>, Rejected> {
        self.check_worker(&claim.worker, now)?;
        let claimed = self.claim_pending(claim, now);
        if claimed.is_empty() && self.promote_due(claim, now) {
            return Ok(self.claim_pending(claim, now));
        }
        Ok(claimed)
    }

    /// Promotes what the worker could claim if somebody had promoted it, earliest first. Says whether there
    /// was anything.
    fn promote_due(&mut self, claim: &Claim, now: Timestamp) -> bool {
        let due = |(seq, Record { task, .. }): (&u64, &Record)| {
            let due_at = task.status.due_at.filter(|due| *due <= now)?;
            (claim.asks_for(&task.spec) && !self.is_paused(task)).then_some((due_at, *seq, task.id))
        };
        let mut due: Vec<_> = self.tasks.iter().filter_map(due).collect();
        due.sort_unstable();
        due.truncate(claim.most_due());
        for (.., task) in &due {
            let _ = self.apply(&Command::Promote { task: *task }, now);
        }
        self.follow_up(now);
        !due.is_empty()
    }

    fn claim_pending(&mut self, claim: &Claim, now: Timestamp) -> Vec<Claimed> {
        let mut claimed = Vec::new();
        while claimed.len() < claim.limit.min(limits::BATCH) {
            let offered = self.tasks.iter().filter(|(_, Record { task, .. })| {
                task.is_claimable() && claim.asks_for(&task.spec) && !self.is_paused(task)
            });
            let best = offered.min_by_key(|(seq, record)| (-i128::from(record.task.status.rank), **seq));
            let Some((_, Record { task, .. })) = best else { break };
            let take = Command::Claim { task: task.id, worker: claim.worker.clone() };
            let Ok(changes) = transition(&Before::of(task), &take, now) else { break };
            let id = task.id;
            self.rings.claimable -= u64::from(self.opened.remove(&id));
            self.write(id, changes, true);
            let taken = self.record(id).map(|Record { task, payload, notes, .. }| {
                let details = notes.iter().rev().find_map(|notes| notes.details.clone());
                Claimed { task: task.clone(), payload: payload.clone(), details }
            });
            claimed.extend(taken);
        }
        claimed
    }

    pub(super) fn is_paused(&self, task: &Task) -> bool {
        self.paused.contains(&(task.spec.namespace.clone(), task.spec.queue.clone()))
    }

    pub(super) fn alive_until(&self, task: &Task) -> Option<Timestamp> {
        let holder = self.workers.get(task.status.worker.as_ref()?)?;
        Some(holder.alive_until())
    }

    /// Whether a held task's holder is dead or unknown.
    pub(super) fn is_orphan(&self, task: &Task, now: Timestamp) -> bool {
        matches!(task.status.state, State::Claimed | State::Running)
            && self.alive_until(task).is_none_or(|until| until <= now)
    }
}
