//! The store in memory: the executable specification. Short, obvious and unoptimised on purpose;
//! other stores are compared with it row by row. Good for tests, lost when the process ends.

mod feed;
mod lanes;
mod rows;
mod workflows;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use windlass_core::{
    AccessToken, Activity, AuditEntry, By, Command, Definition, Entity, EventId, Events, Execution,
    Executions, Facts, Firing, Invalid, Json, LaneHolder, Leadership, Lease, Name, NewAuditEntry,
    NewSchedule, NewSecret, NewTask, NewWorker, NewWorkflow, Place, Rejected, Retention, Schedule, Steering,
    Task, TaskId, Term, Timestamp, Worker, WorkerId, Workflow, WorkflowId, campaign, limits, resign,
};

use crate::clock::{Clock, SystemClock};
use crate::error::{Error, Result};
use crate::request::{
    AuditListing, Count, Cursor, Due, Filter, Listing, Look, Page, Pulse, Reconciled, Record, Rings,
    Submitted, Turn, Turned, check_batch, check_limit, check_new_token,
};
use crate::verbs::{Catalog, Reads, Store, Writes};
use crate::workflow::{
    Defined, DefinitionLine, ReadyWorkflow, Started, StoredDefinition, Touched, WorkflowCount,
    WorkflowFilter, WorkflowListing, WorkflowRecord,
};

/// A store in memory.
#[derive(Debug)]
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    rows: Mutex<Rows>,
    wake: watch::Sender<Rings>,
}

/// All rows of all tables.
#[derive(Debug, Default)]
struct Rows {
    closed: bool,
    last_seq: u64,
    tasks: BTreeMap<u64, Record>,
    seqs: BTreeMap<TaskId, u64>,
    workers: BTreeMap<WorkerId, Worker>,
    leader: Option<Leadership>,
    paused: BTreeSet<(Name, Name)>,
    entities: BTreeSet<(Name, Entity)>,
    schedules: BTreeMap<(Name, Name), Schedule>,
    definitions: Vec<StoredDefinition>,
    /// What happened to workflows in each minute and namespace.
    activity: BTreeMap<(Timestamp, Name), Activity>,
    workflows: BTreeMap<u64, WorkflowRecord>,
    /// What was done to tasks of workflows and is not followed up yet.
    touched: Touched,
    rings: Rings,
    /// What has become claimable in the present turn: if the same turn claims it, nobody need come for it.
    opened: BTreeSet<TaskId>,
    feed: feed::Told,
    access_tokens: BTreeMap<Name, AccessToken>,
    /// Whether there is or ever was one.
    had_access_tokens: bool,
    audits: BTreeMap<u64, AuditEntry>,
    last_audit: u64,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(Arc::new(SystemClock))
    }
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, rows: Mutex::default(), wake: watch::Sender::default() }
    }

    /// The rows, unless closed. A panic elsewhere leaves them whole: every change is made at once.
    fn open(&self) -> Result<MutexGuard<'_, Rows>> {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        if rows.closed { Err(Error::Closed) } else { Ok(rows) }
    }

    /// What is done once a change is made.
    fn tell(&self, rows: &mut Rows) {
        rows.tell(self.clock.now());
        self.wake.send_if_modified(|rings| std::mem::replace(rings, rows.rings) != rows.rings);
    }
}

#[async_trait]
impl Writes for MemoryStore {
    async fn submit(&self, tasks: Vec<NewTask>) -> Result<Vec<Submitted>> {
        let mut rows = self.open()?;
        check_batch(&tasks)?;
        let submitted = rows.submit_all(tasks, self.clock.now())?;
        self.tell(&mut rows);
        Ok(submitted)
    }

    async fn turn(&self, turn: Turn) -> Result<Turned> {
        let mut rows = self.open()?;
        turn.check()?;
        let now = self.clock.now();
        rows.check_term(turn.term, now)?;
        rows.opened.clear();
        let receipts = turn.commands.iter().map(|command| rows.apply(command, now)).collect();
        rows.follow_up(now);
        let claimed = turn.claim.map_or(Ok(Vec::new()), |claim| rows.claim(&claim, now));
        self.tell(&mut rows);
        Ok(Turned { receipts, claimed })
    }

    async fn register(&self, worker: NewWorker) -> Result<Worker> {
        let mut rows = self.open()?;
        worker.check()?;
        rows.workers.get(&worker.id).map_or(Ok(()), |existing| worker.check_replaces(existing))?;
        let worker = worker.admit(self.clock.now());
        rows.workers.insert(worker.id.clone(), worker.clone());
        rows.rings.timed += 1;
        self.tell(&mut rows);
        Ok(worker)
    }

    async fn heartbeat(&self, worker: WorkerId, held: Vec<(TaskId, Lease)>) -> Result<Pulse> {
        let mut rows = self.open()?;
        let Some(row) = rows.workers.get_mut(&worker) else {
            return Err(Rejected::InvalidWorker { worker }.into());
        };
        row.heartbeat_at = row.heartbeat_at.max(self.clock.now());
        let mut pulse = Pulse::default();
        for (id, lease) in held {
            pulse.sort(&worker, id, lease, rows.record(id).map(|record| &record.task));
        }
        Ok(pulse)
    }

    async fn deregister(&self, worker: WorkerId) -> Result<()> {
        let mut rows = self.open()?;
        rows.rings.timed += u64::from(rows.workers.remove(&worker).is_some());
        self.tell(&mut rows);
        Ok(())
    }

    async fn campaign(&self, candidate: WorkerId, lease: Duration) -> Result<Option<Leadership>> {
        let mut rows = self.open()?;
        rows.follow_clock(self.clock.now());
        let won = campaign(rows.leader.as_ref(), &candidate, lease, self.clock.now());
        if won.is_some() {
            rows.leader.clone_from(&won);
        }
        Ok(won)
    }

    async fn resign(&self, candidate: WorkerId, term: Term) -> Result<()> {
        let mut rows = self.open()?;
        if let Some(free) = resign(rows.leader.as_ref(), &candidate, term) {
            rows.leader = Some(free);
        }
        Ok(())
    }

    async fn fire(&self, firing: Firing, term: Option<Term>) -> Result<Vec<Submitted>> {
        let mut rows = self.open()?;
        check_batch(&firing.tasks)?;
        let now = self.clock.now();
        rows.check_term(term, now)?;
        let key = (firing.namespace.clone(), firing.name.clone());
        let Some(before) = rows.schedules.get(&key).cloned() else {
            return Err(Rejected::UnknownSchedule { name: firing.name.to_string() }.into());
        };
        firing.check(&before)?;
        let submitted = rows.submit_all(firing.tasks.clone(), now)?;
        let after = firing.fired(
            &before,
            &submitted.iter().map(|one| (one.id, one.created)).collect::<Vec<_>>(),
            now,
        );
        rows.schedules.insert(key, after);
        self.tell(&mut rows);
        Ok(submitted)
    }

    async fn start(&self, workflow: NewWorkflow) -> Result<Started> {
        let mut rows = self.open()?;
        workflow.check()?;
        let started = rows.start(workflow, self.clock.now())?;
        self.tell(&mut rows);
        Ok(started)
    }

    async fn steer(&self, workflow: WorkflowId, steering: Steering, by: By) -> Result<Workflow> {
        let mut rows = self.open()?;
        let now = self.clock.now();
        let workflow = rows.steer(workflow, &steering, &by, now)?;
        self.tell(&mut rows);
        Ok(workflow)
    }

    async fn reconcile(&self, after: Option<String>, limit: usize) -> Result<Reconciled> {
        let mut rows = self.open()?;
        let reconciled = match Look::after(after.as_deref()) {
            Look::Lanes(after) => rows.reconcile_lanes(after.as_deref(), limit),
            Look::Workflows(after) => rows.reconcile_workflow(after, self.clock.now()),
        };
        self.tell(&mut rows);
        Ok(reconciled)
    }

    async fn prune(&self, retention: Retention, limit: usize) -> Result<usize> {
        let mut rows = self.open()?;
        let now = self.clock.now();
        rows.workers.retain(|_, worker| now.since(worker.alive_until()) <= limits::DEAD_WORKERS);
        rows.feed.prune(now);
        let before = now.minus(limits::AUDIT_KEPT);
        let old = rows.audits.iter().take(limits::BATCH).filter(|(_, entry)| entry.at < before);
        let old: Vec<u64> = old.map(|(number, _)| *number).collect();
        rows.audits.retain(|number, _| !old.contains(number));
        let cutoffs: Vec<_> = retention.cutoffs(now).collect();
        let is_old = |task: &Task| {
            let finished = task.status.finished_at;
            cutoffs.iter().any(|(state, before)| *state == task.status.state && finished < Some(*before))
        };
        let lone = rows.tasks.iter().filter(|(_, record)| record.task.spec.workflow.is_none());
        let old = lone.filter(|(_, record)| is_old(&record.task));
        let mut old: Vec<_> =
            old.map(|(seq, Record { task, .. })| (task.status.finished_at, *seq, task.id)).collect();
        old.sort_unstable();
        old.truncate(limit);
        old.iter().for_each(|(.., id)| rows.delete(*id));
        Ok(old.len() + rows.prune_workflows(&retention, limit - old.len(), now))
    }
}

#[async_trait]
impl Reads for MemoryStore {
    async fn workers(&self) -> Result<Vec<Worker>> {
        Ok(self.open()?.workers.values().cloned().collect())
    }

    async fn leader(&self) -> Result<Option<Leadership>> {
        Ok(self.open()?.leader.clone())
    }

    async fn due(&self, limit: usize) -> Result<Due> {
        let rows = self.open()?;
        let now = self.clock.now();
        let timed = |(seq, record): (&u64, &Record)| Some((record.task.status.due_at?, *seq, record.task.id));
        let mut waiting: Vec<_> = rows.tasks.iter().filter_map(timed).collect();
        waiting.sort();
        let next = waiting.iter().map(|(due, ..)| *due).find(|due| *due > now);
        let promote = waiting.iter().take_while(|(due, ..)| *due <= now);
        let promote = promote.map(|(_, _, task)| Command::Promote { task: *task });
        let expire = rows.tasks.values().map(|record| &record.task).filter(|task| rows.is_orphan(task, now));
        let expire = expire.map(|task| Command::Expire { task: task.id, lease: task.status.lease });
        let commands: Vec<_> = promote.chain(expire).take(limit).collect();
        let mut timed: Vec<_> = rows.schedules.values().filter(|schedule| !schedule.paused).collect();
        timed.sort_by_key(|schedule| (schedule.next_at, &schedule.namespace, &schedule.name));
        let slot = timed.iter().map(|schedule| schedule.next_at).find(|at| *at > now);
        let come = timed.into_iter().take_while(|schedule| schedule.next_at <= now);
        let schedules: Vec<_> = come.take(limit).cloned().collect();
        let next = next.into_iter().chain(slot.filter(|at| *at < Timestamp::MAX)).min();
        let next = next.filter(|_| commands.len() < limit && schedules.len() < limit);
        let silent_at = rows.workers.values().map(Worker::alive_until).filter(|until| *until > now).min();
        Ok(Due { commands, schedules, next, silent_at, now })
    }

    async fn task(&self, id: TaskId) -> Result<Option<Record>> {
        Ok(self.open()?.record(id).cloned())
    }

    async fn find(&self, namespace: Name, kind: Name, key: String) -> Result<Option<TaskId>> {
        Ok(self.open()?.find(&namespace, &kind, &key).map(|record| record.task.id))
    }

    async fn tasks(&self, filter: Filter, page: Page) -> Result<Listing> {
        let rows = self.open()?;
        page.check()?;
        let wanted = rows.tasks.iter().filter(|(_, record)| filter.wants(&record.task));
        // The tasks of a workflow are in the order of their places.
        let place = |seq: u64, task: &Task| match filter.workflow {
            Some(_) => Place::of(task.id).number(),
            None => seq,
        };
        let placed = wanted.map(|(seq, record)| (Cursor(place(*seq, &record.task)), record.task.clone()));
        let mut all: Vec<(Cursor, Task)> = placed.collect();
        all.sort_by_key(|(place, _)| *place);
        let (tasks, next) = page.cut(all);
        Ok(Listing { tasks, next })
    }

    async fn counts(&self) -> Result<Vec<Count>> {
        let mut counts = BTreeMap::<_, u64>::new();
        for Record { task, .. } in self.open()?.tasks.values() {
            let spec = &task.spec;
            let is_step = spec.workflow.is_some();
            let sort =
                (spec.namespace.clone(), spec.queue.clone(), spec.kind.clone(), is_step, task.status.state);
            *counts.entry(sort).or_default() += 1;
        }
        let count = |((namespace, queue, kind, is_step, state), tasks)| Count {
            namespace,
            queue,
            kind,
            is_step,
            state,
            tasks,
        };
        Ok(counts.into_iter().map(count).collect())
    }

    async fn facts(&self, id: TaskId) -> Result<Option<Facts>> {
        let rows = self.open()?;
        let now = self.clock.now();
        let Some(Record { task, .. }) = rows.record(id) else { return Ok(None) };
        let spec = &task.spec;
        let holders = rows.lane(task).filter(|other| other.status.slot && other.id != id);
        let takers = rows.workers.values().filter(|worker| worker.is_alive(now));
        let takers = takers.filter(|worker| worker.takes(&spec.namespace, &spec.queue, &spec.kind));
        Ok(Some(Facts {
            task: task.clone(),
            paused: rows.is_paused(task),
            lane_holders: holders.map(LaneHolder::of).collect(),
            live_workers: u32::try_from(takers.count()).unwrap_or(u32::MAX),
            alive_until: rows.alive_until(task),
            now,
        }))
    }

    async fn workflow(&self, id: WorkflowId) -> Result<Option<WorkflowRecord>> {
        Ok(self.open()?.workflow(id).cloned())
    }

    async fn find_workflow(&self, namespace: Name, name: Name, key: String) -> Result<Option<WorkflowId>> {
        Ok(self.open()?.find_workflow(&namespace, &name, &key).map(|workflow| workflow.id))
    }

    async fn workflows(&self, filter: WorkflowFilter, page: Page) -> Result<WorkflowListing> {
        let rows = self.open()?;
        page.check()?;
        let wanted = rows.workflows.iter().filter(|(_, record)| filter.wants(&record.workflow));
        let (workflows, next) =
            page.cut(wanted.map(|(seq, record)| (Cursor(*seq), record.workflow.clone())).collect());
        Ok(WorkflowListing { workflows, next })
    }

    async fn results(&self, tasks: Vec<TaskId>) -> Result<Vec<Option<Json>>> {
        let rows = self.open()?;
        Ok(tasks.into_iter().map(|task| rows.record(task)?.result.clone()).collect())
    }

    async fn workflow_counts(&self) -> Result<Vec<WorkflowCount>> {
        Ok(self.open()?.workflow_counts())
    }

    async fn ready_workflows(
        &self,
        namespace: Option<Name>,
        name: Option<Name>,
        limit: usize,
    ) -> Result<Vec<ReadyWorkflow>> {
        Ok(self.open()?.ready_workflows((namespace.as_ref(), name.as_ref()), limit, self.clock.now()))
    }

    async fn activity(&self, since: Timestamp, namespace: Option<Name>) -> Result<Activity> {
        Ok(self.open()?.activity(since, namespace.as_ref()))
    }

    async fn executions(&self, wanted: Executions) -> Result<Vec<Execution>> {
        Ok(self.open()?.executions(&wanted))
    }

    async fn describe(&self) -> Result<Vec<(String, String)>> {
        drop(self.open()?);
        Ok(vec![
            ("store".into(), "memory".into()),
            ("durability".into(), "none: lost when the process ends".into()),
        ])
    }

    async fn events(&self, after: Option<EventId>, limit: usize) -> Result<Events> {
        let mut rows = self.open()?;
        check_limit(limit)?;
        Ok(rows.events(after, limit, self.clock.now()))
    }
}

#[async_trait]
impl Catalog for MemoryStore {
    async fn pause(&self, namespace: Name, queue: Name, paused: bool) -> Result<()> {
        let mut rows = self.open()?;
        let queue = (namespace, queue);
        let _ = if paused { rows.paused.insert(queue) } else { rows.paused.remove(&queue) };
        rows.rings.claimable += u64::from(!paused);
        self.tell(&mut rows);
        Ok(())
    }

    async fn paused(&self) -> Result<Vec<(Name, Name)>> {
        Ok(self.open()?.paused.iter().cloned().collect())
    }

    async fn set_entity(&self, namespace: Name, entity: Entity, known: bool) -> Result<bool> {
        let mut rows = self.open()?;
        let row = (namespace, entity);
        Ok(if known { rows.entities.insert(row) } else { rows.entities.remove(&row) })
    }

    async fn has_entity(&self, namespace: Name, entity: Entity) -> Result<bool> {
        Ok(self.open()?.entities.contains(&(namespace, entity)))
    }

    async fn entities(&self, namespace: Name, after: Option<Entity>, limit: usize) -> Result<Vec<Entity>> {
        let rows = self.open()?;
        check_limit(limit)?;
        let known = rows.entities.iter().filter(|(owner, _)| *owner == namespace).map(|(_, entity)| entity);
        let rest = known.filter(|entity| after.as_ref().is_none_or(|after| *entity > after));
        Ok(rest.take(limit).cloned().collect())
    }

    async fn set_schedule(&self, schedule: NewSchedule) -> Result<Schedule> {
        let mut rows = self.open()?;
        schedule.check()?;
        let key = (schedule.namespace.clone(), schedule.name.clone());
        if rows.schedules.len() >= limits::SCHEDULES && !rows.schedules.contains_key(&key) {
            return Err(Invalid::number("number of schedules", limits::SCHEDULES + 1, "at most 10000").into());
        }
        let schedule = schedule.admit(rows.schedules.get(&key), self.clock.now());
        rows.schedules.insert(key, schedule.clone());
        rows.rings.timed += 1;
        self.tell(&mut rows);
        Ok(schedule)
    }

    async fn remove_schedule(&self, namespace: Name, name: Name) -> Result<bool> {
        Ok(self.open()?.schedules.remove(&(namespace, name)).is_some())
    }

    async fn schedules(&self) -> Result<Vec<Schedule>> {
        Ok(self.open()?.schedules.values().cloned().collect())
    }

    async fn define(&self, namespace: Name, definition: Definition) -> Result<Defined> {
        Ok(self.open()?.define(&namespace, definition, self.clock.now())?)
    }

    async fn definition(
        &self,
        namespace: Name,
        name: Name,
        version: Option<String>,
    ) -> Result<Option<StoredDefinition>> {
        Ok(self.open()?.definition(&namespace, &name, version.as_deref()).cloned())
    }

    async fn definitions(&self, namespace: Name, name: Option<Name>) -> Result<Vec<DefinitionLine>> {
        Ok(self.open()?.definition_lines(&namespace, name.as_ref()))
    }

    async fn put_access_token(&self, token: AccessToken) -> Result<()> {
        let mut rows = self.open()?;
        token.check()?;
        let is_taken = rows.has_secret(&token.id);
        check_new_token(
            &token,
            rows.access_tokens.len(),
            rows.access_tokens.contains_key(&token.name),
            is_taken,
        )?;
        rows.access_tokens.insert(token.name.clone(), token);
        rows.had_access_tokens = true;
        Ok(())
    }

    async fn had_access_tokens(&self) -> Result<bool> {
        Ok(self.open()?.had_access_tokens)
    }

    async fn rotate_access_token(&self, name: Name, secret: NewSecret, keep: Duration) -> Result<bool> {
        let mut rows = self.open()?;
        let Some(mut token) = rows.access_tokens.get(&name).cloned() else { return Ok(false) };
        let is_taken = secret.id != token.id && rows.has_secret(&secret.id);
        token.rotate(secret, keep, self.clock.now())?;
        check_new_token(&token, 0, false, is_taken)?;
        rows.access_tokens.insert(name, token);
        Ok(true)
    }

    async fn touch_access_tokens(&self, used: Vec<(Name, Timestamp)>) -> Result<()> {
        let mut rows = self.open()?;
        for (name, at) in used {
            if let Some(token) = rows.access_tokens.get_mut(&name).filter(|token| token.created_at <= at) {
                token.last_used_at = token.last_used_at.max(Some(at));
            }
        }
        Ok(())
    }

    async fn access_tokens(&self) -> Result<Vec<AccessToken>> {
        Ok(self.open()?.access_tokens.values().cloned().collect())
    }

    async fn revoke_access_token(&self, name: Name) -> Result<bool> {
        Ok(self.open()?.access_tokens.remove(&name).is_some())
    }

    async fn audit(&self, entry: NewAuditEntry) -> Result<()> {
        let mut rows = self.open()?;
        entry.check()?;
        rows.last_audit += 1;
        let number = rows.last_audit;
        rows.audits.insert(number, AuditEntry::new(entry, self.clock.now()));
        Ok(())
    }

    async fn audits(&self, page: Page) -> Result<AuditListing> {
        let rows = self.open()?;
        page.check()?;
        let all = rows.audits.iter().map(|(number, entry)| (Cursor(*number), entry.clone()));
        let (entries, next) = page.cut(all.collect());
        Ok(AuditListing { entries, next })
    }
}

impl Rows {
    /// Whether a secret of some token has this id.
    fn has_secret(&self, id: &str) -> bool {
        let mut tokens = self.access_tokens.values();
        tokens.any(|token| token.id == id || token.previous.iter().any(|former| former.id == id))
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn watch(&self) -> watch::Receiver<Rings> {
        self.wake.subscribe()
    }

    async fn close(&self) -> Result<()> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        Ok(())
    }
}
