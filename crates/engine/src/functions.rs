//! Everything that can be asked about workflows, in groups, as document 002 of the field has it: readiness,
//! graph, state, analytics, health, discovery. Each answer is the same on every store.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use windlass_core::{
    Analytics, By, Connections, Entry, Execution, ExecutionContext, Executions, Json, Name, Patience, Place,
    Readiness, Reason, Rejected, Stale, State, Steering, StepBackoff, SystemHealth, Task, TaskId, Timestamp,
    Workflow, WorkflowId, WorkflowState, limits,
};
use windlass_store::{Count, Filter, Page, ReadyWorkflow, Result, WorkflowFilter, WorkflowRecord};

use crate::client::Client;
use crate::workflow::{Inspection, StepAncestor};

/// How long whoever moves a workflow is the only one to.
const HOLD: Duration = Duration::from_secs(30);

impl Client {
    /// What can be asked about workflows, in groups.
    #[must_use]
    pub fn functions(&self) -> Functions<'_> {
        Functions { client: self }
    }
}

/// What can be asked about workflows.
#[derive(Clone, Copy, Debug)]
pub struct Functions<'a> {
    client: &'a Client,
}

impl<'a> Functions<'a> {
    /// Whether steps can run.
    #[must_use]
    pub fn readiness(self) -> ReadinessFunctions<'a> {
        ReadinessFunctions(self.client)
    }

    /// What comes after what.
    #[must_use]
    pub fn graph(self) -> GraphFunctions<'a> {
        GraphFunctions(self.client)
    }

    /// Where workflows are, and moving them by hand.
    #[must_use]
    pub fn state(self) -> StateFunctions<'a> {
        StateFunctions(self.client)
    }

    /// What happened.
    #[must_use]
    pub fn analytics(self) -> AnalyticsFunctions<'a> {
        AnalyticsFunctions(self.client)
    }

    /// How the whole is doing.
    #[must_use]
    pub fn health(self) -> HealthFunctions<'a> {
        HealthFunctions(self.client)
    }

    /// What there is to do.
    #[must_use]
    pub fn discovery(self) -> DiscoveryFunctions<'a> {
        DiscoveryFunctions(self.client)
    }
}

/// Whether steps can run.
#[derive(Clone, Copy, Debug)]
pub struct ReadinessFunctions<'a>(&'a Client);

impl ReadinessFunctions<'_> {
    /// Of all steps and items of a workflow, in the order of their places; only of `steps`, if any are named.
    pub async fn status(&self, id: WorkflowId, steps: Option<&[TaskId]>) -> Result<Vec<Readiness>> {
        self.rows(&inspect(self.0, id).await?, steps).await
    }

    async fn rows(&self, inspection: &Inspection, steps: Option<&[TaskId]>) -> Result<Vec<Readiness>> {
        let (mut rows, WorkflowRecord { workflow, blueprint, .. }) = (Vec::new(), &inspection.record);
        for task in inspection.tasks.iter().filter(|task| steps.is_none_or(|steps| steps.contains(&task.id)))
        {
            let failed = match Readiness::last_failure(task) {
                Some(known) => known,
                None => {
                    let history = self.0.get(task.id).await?.map(|record| record.history).unwrap_or_default();
                    let is_failure = |entry: &&Entry| {
                        entry.reason == Reason::Failed
                            || matches!(entry.to, State::Failed | State::DeadLetter)
                    };
                    history.iter().rev().find(is_failure).map(|entry| entry.at)
                }
            };
            let state_of = |step| inspection.step(step).map(|task| task.status.state);
            rows.push(Readiness::of(task, workflow, blueprint, state_of, failed, inspection.at));
        }
        Ok(rows)
    }

    /// Of several workflows, in the order of their ids, whatever that of `ids` is, and each once. What is not
    /// there is left out.
    pub async fn batch(&self, ids: &[WorkflowId]) -> Result<Vec<Readiness>> {
        let mut rows = Vec::new();
        for id in ids.iter().collect::<BTreeSet<_>>() {
            if let Some(inspection) = self.0.inspect(*id).await? {
                rows.extend(self.rows(&inspection, None).await?);
            }
        }
        Ok(rows)
    }

    /// The steps and items that a worker may take now.
    pub async fn ready_steps(&self, id: WorkflowId) -> Result<Vec<Readiness>> {
        let mut rows = self.status(id, None).await?;
        rows.retain(|row| row.ready_for_execution);
        Ok(rows)
    }

    /// When a step with this behind it is tried again, by the formula of document 002: see
    /// [`StepBackoff::next_retry_time`].
    #[must_use]
    pub fn next_retry_time(
        &self,
        backoff: StepBackoff,
        asked: Option<Duration>,
        last_attempted_at: Option<Timestamp>,
        failed_at: Option<Timestamp>,
        attempts: Option<u32>,
    ) -> Option<Timestamp> {
        backoff.next_retry_time(asked, last_attempted_at, failed_at, attempts)
    }

    /// How long document 002 waits after so many attempts: see [`StepBackoff::delay`].
    #[must_use]
    pub fn backoff_delay(&self, attempts: u32, base: Duration) -> Duration {
        StepBackoff::delay(attempts, base)
    }

    /// Lets a step that waits for a retry wait until so long from now, at most 30 days: whether it does. A
    /// step that is not there, or does not wait for a retry, is left as it is.
    pub async fn set_backoff(&self, step: TaskId, delay: Duration) -> Result<bool> {
        match self.0.postpone(step, delay).await {
            Ok(_) => Ok(true),
            Err(error) => match error.rejected() {
                Some(Rejected::NotFound { .. } | Rejected::NotRetrying { .. }) => Ok(false),
                _ => Err(error),
            },
        }
    }

    /// Whether enough of a step's parents are done, beside everything else about it. A step that is not there
    /// is refused.
    pub async fn dependencies(&self, step: TaskId) -> Result<Readiness> {
        let rows = self.status(WorkflowId::of(step), Some(&[step])).await?;
        Ok(rows.into_iter().next().ok_or(Rejected::NotFound { task: step })?)
    }
}

/// What comes after what.
#[derive(Clone, Copy, Debug)]
pub struct GraphFunctions<'a>(&'a Client);

impl GraphFunctions<'_> {
    /// Of each step how many steps are on the longest way to it, lowest first.
    pub async fn levels(&self, id: WorkflowId) -> Result<Vec<(Name, u32)>> {
        let record = self.0.workflow(id).await?.ok_or(Rejected::UnknownWorkflow { workflow: id })?;
        let blueprint = &record.blueprint;
        let steps = (0..).zip(&blueprint.definition().steps);
        let mut levels: Vec<_> =
            steps.map(|(number, step)| (step.name.clone(), blueprint.graph().level(number))).collect();
        levels.sort_by_key(|(_, level)| *level);
        Ok(levels)
    }

    /// How many steps are on the longest way to a step.
    pub async fn depth(&self, step: TaskId) -> Result<u32> {
        let id = WorkflowId::of(step);
        let record = self.0.workflow(id).await?.ok_or(Rejected::UnknownWorkflow { workflow: id })?;
        if !self.has(&record, step).await? {
            return Err(Rejected::NotFound { task: step }.into());
        }
        Ok(record.blueprint.graph().level(Place::of(step).step))
    }

    /// Whether a task is a step of a workflow, or an item of one that was made.
    async fn has(&self, record: &WorkflowRecord, task: TaskId) -> Result<bool> {
        let place = Place::of(task);
        let is_there = record.blueprint.step(place.step).is_some() && record.workflow.id.task(place) == task;
        Ok(is_there && (place.item.is_none() || self.0.get(task).await?.is_some()))
    }

    /// All steps that come before a step, nearest first, with what they have returned.
    pub async fn transitive_dependencies(&self, id: WorkflowId, step: &str) -> Result<Vec<StepAncestor>> {
        self.0.ancestors(id, step).await
    }

    /// What the steps before a step have returned, by name: of those that are done, however far away, and
    /// have returned something.
    pub async fn results(&self, step: TaskId) -> Result<BTreeMap<Name, Json>> {
        let inspection = inspect(self.0, WorkflowId::of(step)).await?;
        if !inspection.tasks.iter().any(|task| task.id == step) {
            return Err(Rejected::NotFound { task: step }.into());
        }
        let before = self.0.ancestors_of(&inspection, Place::of(step).step).await?;
        let is_done = |state| matches!(state, State::Completed | State::ResolvedManually);
        let done = before.into_iter().filter(|one| is_done(one.state));
        Ok(done.filter_map(|one| Some((one.name, one.result?))).collect())
    }

    /// Whether an edge from one step to another would close a cycle: the first comes after the second
    /// already, or is the second. No edge leads from one workflow to another, or to what is not there, so
    /// that nothing is closed by one.
    pub async fn would_be_a_cycle(&self, from: TaskId, to: TaskId) -> Result<bool> {
        let id = WorkflowId::of(from);
        if WorkflowId::of(to) != id {
            return Ok(false);
        }
        let Some(record) = self.0.workflow(id).await? else { return Ok(false) };
        if !(self.has(&record, from).await? && self.has(&record, to).await?) {
            return Ok(false);
        }
        let (from, to) = (Place::of(from).step, Place::of(to).step);
        Ok(from == to || record.blueprint.graph().is_ancestor(to, from))
    }
}

/// Where workflows are, and moving them by hand.
#[derive(Clone, Copy, Debug)]
pub struct StateFunctions<'a>(&'a Client);

impl StateFunctions<'_> {
    /// Where a workflow is.
    pub async fn current(&self, id: WorkflowId) -> Result<WorkflowState> {
        let record = self.0.workflow(id).await?;
        Ok(record.ok_or(Rejected::UnknownWorkflow { workflow: id })?.workflow.state)
    }

    /// Moves a workflow from one state to another: whether it was moved. A state it is not in, an arrow there
    /// is not, an owner who is another: nothing is changed.
    pub async fn transition(
        &self,
        id: WorkflowId,
        from: WorkflowState,
        to: WorkflowState,
        owner: &str,
        note: Option<&str>,
    ) -> Result<bool> {
        let steering = Steering::Move { from, to, owner: owner.into(), hold: HOLD };
        let by = By { actor: Some(owner.into()), note: note.map(Into::into) };
        match self.0.steer(id, steering, by).await {
            Ok(_) => Ok(true),
            Err(error) => match error.rejected() {
                Some(
                    Rejected::WorkflowMoved { .. }
                    | Rejected::WorkflowOwned { .. }
                    | Rejected::WorkflowOver { .. },
                ) => Ok(false),
                _ => Err(error),
            },
        }
    }

    /// Whether a workflow is complete. The end of its last step completes it, so that there is nothing left
    /// to do here, however often.
    pub async fn finalize(&self, id: WorkflowId) -> Result<bool> {
        Ok(self.current(id).await? == WorkflowState::Complete)
    }
}

/// What happened.
#[derive(Clone, Copy, Debug)]
pub struct AnalyticsFunctions<'a>(&'a Client);

impl AnalyticsFunctions<'_> {
    /// What happened since a moment, in one namespace. Defaults: since an hour ago, in all namespaces.
    pub async fn metrics(&self, namespace: Option<&Name>, since: Option<Timestamp>) -> Result<Analytics> {
        let store = self.0.store();
        let at = store.now().await?;
        let since = since.unwrap_or_else(|| at.minus(Duration::from_secs(3600)));
        let activity = store.activity(since, namespace.cloned()).await?;
        let counts = store.workflow_counts().await?;
        let counts = counts.iter().filter(|count| namespace.is_none_or(|wanted| count.namespace == *wanted));
        let health = HealthFunctions(self.0).counts(namespace).await?;
        let definitions = counts.map(|count| (&count.namespace, &count.name));
        Ok(Analytics::new(activity, &health, definitions, since, at))
    }
}

impl AnalyticsFunctions<'_> {
    /// The slowest of what ended since a moment.
    pub async fn slowest(&self, wanted: Executions) -> Result<Vec<Execution>> {
        self.0.store().executions(wanted).await
    }
}

/// What waits in a queue to be claimed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueStatistics {
    /// How many tasks.
    pub length: u64,
    /// How long ago the one was submitted that was first.
    pub oldest: Option<Duration>,
    /// How long ago the one was submitted that was last.
    pub newest: Option<Duration>,
}

/// How the whole is doing.
#[derive(Clone, Copy, Debug)]
pub struct HealthFunctions<'a>(&'a Client);

impl HealthFunctions<'_> {
    /// How many workflows and steps of a namespace are where. Default: those of all namespaces. Connections
    /// belong to no namespace, and are left out for one.
    pub async fn counts(&self, namespace: Option<&Name>) -> Result<SystemHealth> {
        let store = self.0.store();
        let is_wanted = |of: &Name| namespace.is_none_or(|wanted| of == wanted);
        let (workflows, steps) = (store.workflow_counts().await?, store.counts().await?);
        let workflows = workflows.iter().filter(|count| is_wanted(&count.namespace));
        let steps = steps.iter().filter(|count| count.is_step && is_wanted(&count.namespace));
        let connections = if namespace.is_none() { store.connections() } else { Connections::default() };
        Ok(SystemHealth::new(
            workflows.map(|count| (count.state, count.workflows)),
            steps.map(|count| (count.state, count.tasks)),
            connections,
        ))
    }

    /// What waits in a queue of this namespace to be claimed.
    pub async fn queue(&self, queue: &str) -> Result<QueueStatistics> {
        let (store, queue, namespace) = (self.0.store(), Name::queue(queue)?, self.0.namespace.clone());
        let of_queue = |count: &&Count| count.queue == queue && count.namespace == namespace;
        let counts = store.counts().await?;
        let waiting = counts.iter().filter(of_queue).filter(|count| count.state == State::Pending);
        let length = waiting.map(|count| count.tasks).sum();
        if length == 0 {
            return Ok(QueueStatistics { length, oldest: None, newest: None });
        }
        let filter = Filter {
            states: vec![State::Pending],
            queue: Some(queue.clone()),
            namespace: Some(namespace.clone()),
            ..Filter::default()
        };
        let (oldest, newest) = (self.first(&filter, true).await?, self.first(&filter, false).await?);
        let now = store.now().await?;
        let age = |task: Option<Task>| task.map(|task| now.since(task.spec.created_at));
        Ok(QueueStatistics { length, oldest: age(oldest), newest: age(newest) })
    }

    /// The first task that a filter wants. A store looks at so many and no more, and goes on when it is asked
    /// again: behind many others of other queues there may be one.
    async fn first(&self, filter: &Filter, oldest_first: bool) -> Result<Option<Task>> {
        let mut page = Page { limit: 1, after: None, oldest_first };
        loop {
            let mut listing = self.0.store().tasks(filter.clone(), page).await?;
            page.after = listing.next;
            if !listing.tasks.is_empty() || page.after.is_none() {
                return Ok(listing.tasks.pop());
            }
        }
    }

    /// The workflows that have used up most of the time that they may rest, or more; those with the least
    /// left first. One that waits for a moment rests from then on, so that a long wait that was asked for is
    /// none too long.
    pub async fn stale(&self, patience: Patience) -> Result<Vec<Stale>> {
        let (store, open) =
            (self.0.store(), WorkflowState::ALL.into_iter().filter(|state| !state.is_final()));
        let filter = WorkflowFilter { states: open.collect(), ..WorkflowFilter::default() };
        let mut page = Page { limit: limits::PAGE, after: None, oldest_first: true };
        let (now, mut stale) = (store.now().await?, Vec::new());
        loop {
            let listing = store.workflows(filter.clone(), page).await?;
            for workflow in &listing.workflows {
                // When it is due is looked for only if that may matter.
                let mut found = patience.check(workflow, None, now);
                if found.is_some() && workflow.state == WorkflowState::WaitingForRetry {
                    found = patience.check(workflow, self.due_at(workflow.id).await?, now);
                }
                stale.extend(found);
            }
            page.after = listing.next;
            if page.after.is_none() {
                break;
            }
        }
        let left = |stale: &Stale| stale.rested.as_secs_f64() / stale.allowed.as_secs_f64().max(1e-9);
        stale.sort_by(|a, b| left(b).total_cmp(&left(a)));
        Ok(stale)
    }

    /// When the first of a workflow's tasks that wait for a moment is due.
    async fn due_at(&self, workflow: WorkflowId) -> Result<Option<Timestamp>> {
        let states = vec![State::WaitingForRetry, State::Scheduled];
        let filter = Filter { workflow: Some(workflow), states, ..Filter::default() };
        let mut page = Page { limit: limits::PAGE, after: None, oldest_first: true };
        let mut first: Option<Timestamp> = None;
        loop {
            let listing = self.0.store().tasks(filter.clone(), page).await?;
            let due = listing.tasks.iter().filter_map(|task| task.status.due_at);
            first = due.chain(first).min();
            page.after = listing.next;
            if page.after.is_none() {
                return Ok(first);
            }
        }
    }
}

/// What there is to do.
#[derive(Clone, Copy, Debug)]
pub struct DiscoveryFunctions<'a>(&'a Client);

impl DiscoveryFunctions<'_> {
    /// The workflows that have steps which a worker may take now, by [computed
    /// priority](Workflow::computed_priority), highest first; of one namespace and of one name, if these are
    /// given.
    pub async fn ready_workflows(
        &self,
        namespace: Option<&Name>,
        name: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<ReadyWorkflow>> {
        self.0.store().ready_workflows(namespace.cloned(), name.cloned(), limit).await
    }

    /// One workflow, and how many of its steps a worker may take now.
    pub async fn ready_info(&self, id: WorkflowId) -> Result<ReadyWorkflow> {
        let inspection = inspect(self.0, id).await?;
        let ready = inspection.context().ready.into();
        Ok(ReadyWorkflow { workflow: inspection.record.workflow, ready })
    }

    /// How a workflow is doing, in numbers.
    pub async fn context(&self, id: WorkflowId) -> Result<(Workflow, ExecutionContext)> {
        let inspection = inspect(self.0, id).await?;
        let context = inspection.context();
        Ok((inspection.record.workflow, context))
    }
}

async fn inspect(client: &Client, id: WorkflowId) -> Result<Inspection> {
    Ok(client.inspect(id).await?.ok_or(Rejected::UnknownWorkflow { workflow: id })?)
}
