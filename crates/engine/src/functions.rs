//! Everything that can be asked about workflows, in groups, as document 002 of the field has it: readiness, graph, state, analytics,
//! health, discovery. Each answer is the same on every store.

use std::time::Duration;

use windlass_core::{
    Analytics, By, Execution, ExecutionContext, Executions, Name, Patience, Place, Readiness, Rejected,
    Stale, State, Steering, StepBackoff, SystemHealth, TaskId, Timestamp, Workflow, WorkflowId,
    WorkflowState, limits,
};
use windlass_store::{Count, Filter, Listing, Page, ReadyWorkflow, Result, WorkflowFilter, WorkflowRecord};

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
        let inspection = inspect(self.0, id).await?;
        let now = self.0.store().now().await?;
        let (mut rows, WorkflowRecord { workflow, blueprint, .. }) = (Vec::new(), &inspection.record);
        for task in inspection.tasks.iter().filter(|task| steps.is_none_or(|steps| steps.contains(&task.id)))
        {
            let failed = match Readiness::last_failure(task) {
                Some(known) => known,
                None => {
                    let history = self.0.get(task.id).await?.map(|record| record.history).unwrap_or_default();
                    let is_failure =
                        |to| matches!(to, State::WaitingForRetry | State::Failed | State::DeadLetter);
                    history.iter().rev().find(|entry| is_failure(entry.to)).map(|entry| entry.at)
                }
            };
            let state_of = |step| inspection.step(step).map(|task| task.status.state);
            rows.push(Readiness::of(task, workflow, blueprint, state_of, failed, now));
        }
        Ok(rows)
    }

    /// Of several workflows, one after the other.
    pub async fn batch(&self, ids: &[WorkflowId]) -> Result<Vec<Readiness>> {
        let mut rows = Vec::new();
        for id in ids {
            rows.extend(self.status(*id, None).await?);
        }
        Ok(rows)
    }

    /// The steps and items that a worker may take now.
    pub async fn ready_steps(&self, id: WorkflowId) -> Result<Vec<Readiness>> {
        let mut rows = self.status(id, None).await?;
        rows.retain(|row| row.ready_for_execution);
        Ok(rows)
    }

    /// When a step with this behind it is tried again, by the formula of document 002: see [`StepBackoff::next_retry_time`].
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

    /// Lets a step that waits for a retry wait until so long from now, at most 30 days: whether it does. A step that is not there, or does not wait
    /// for a retry, is left as it is.
    pub async fn set_backoff(&self, step: TaskId, delay: Duration) -> Result<bool> {
        match self.0.postpone(step, delay).await {
            Ok(_) => Ok(true),
            Err(error) => match error.rejected() {
                Some(Rejected::NotFound { .. } | Rejected::NotRetrying { .. }) => Ok(false),
                _ => Err(error),
            },
        }
    }

    /// Whether enough of a step's parents are done.
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
        let number = Place::of(step).step;
        if record.blueprint.step(number).is_none() {
            return Err(Rejected::NotFound { task: step }.into());
        }
        Ok(record.blueprint.graph().level(number))
    }

    /// All steps that come before a step, nearest first, with what they have returned.
    pub async fn transitive_dependencies(&self, id: WorkflowId, step: &str) -> Result<Vec<StepAncestor>> {
        self.0.ancestors(id, step).await
    }

    /// Whether one step could not be made to come after another, because the other comes after it.
    pub async fn would_be_a_cycle(&self, from: TaskId, to: TaskId) -> Result<bool> {
        let id = WorkflowId::of(from);
        let record = self.0.workflow(id).await?.ok_or(Rejected::UnknownWorkflow { workflow: id })?;
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

    /// Moves a workflow from one state to another: whether it was moved. A state it is not in, an arrow there is not, an owner who is another:
    /// nothing is changed.
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

    /// Whether a workflow is complete. The end of its last step completes it, so that there is nothing left to do here, however often.
    pub async fn finalize(&self, id: WorkflowId) -> Result<bool> {
        Ok(self.current(id).await? == WorkflowState::Complete)
    }
}

/// What happened.
#[derive(Clone, Copy, Debug)]
pub struct AnalyticsFunctions<'a>(&'a Client);

impl AnalyticsFunctions<'_> {
    /// What happened since a moment; in the last hour, if none is given.
    pub async fn metrics(&self, since: Option<Timestamp>) -> Result<Analytics> {
        let store = self.0.store();
        let at = store.now().await?;
        let since = since.unwrap_or_else(|| at.minus(Duration::from_secs(3600)));
        let (activity, counts) = (store.activity(since).await?, store.workflow_counts().await?);
        let health = HealthFunctions(self.0).counts().await?;
        Ok(Analytics::new(
            activity,
            &health,
            counts.iter().map(|count| (&count.namespace, &count.name)),
            since,
            at,
        ))
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
    /// How many workflows and steps are where.
    pub async fn counts(&self) -> Result<SystemHealth> {
        let store = self.0.store();
        let workflows = store.workflow_counts().await?;
        let steps = store.counts().await?;
        Ok(SystemHealth::new(
            workflows.iter().map(|count| (count.state, count.workflows)),
            steps.iter().filter(|count| count.is_step).map(|count| (count.state, count.tasks)),
            store.connections(),
        ))
    }

    /// What waits in a queue of this namespace to be claimed.
    pub async fn queue(&self, queue: &str) -> Result<QueueStatistics> {
        let (store, queue, namespace) = (self.0.store(), Name::queue(queue)?, self.0.namespace.clone());
        let of_queue = |count: &&Count| count.queue == queue && count.namespace == namespace;
        let counts = store.counts().await?;
        let waiting = counts.iter().filter(of_queue).filter(|count| count.state == State::Pending);
        let length = waiting.map(|count| count.tasks).sum();
        let now = store.now().await?;
        let filter = Filter {
            states: vec![State::Pending],
            queue: Some(queue.clone()),
            namespace: Some(namespace.clone()),
            ..Filter::default()
        };
        let at = |oldest_first| store.tasks(filter.clone(), Page { limit: 1, after: None, oldest_first });
        let age = |found: Listing| found.tasks.first().map(|task| now.since(task.spec.created_at));
        Ok(QueueStatistics { length, oldest: age(at(true).await?), newest: age(at(false).await?) })
    }

    /// The workflows that have used up most of the time that they may rest, or more; those with the least left first.
    pub async fn stale(&self, patience: Patience) -> Result<Vec<Stale>> {
        let (store, open) =
            (self.0.store(), WorkflowState::ALL.into_iter().filter(|state| !state.is_final()));
        let filter = WorkflowFilter { states: open.collect(), ..WorkflowFilter::default() };
        let mut page = Page { limit: limits::PAGE, after: None, oldest_first: true };
        let (now, mut stale) = (store.now().await?, Vec::new());
        loop {
            let listing = store.workflows(filter.clone(), page).await?;
            stale.extend(listing.workflows.iter().filter_map(|workflow| patience.check(workflow, now)));
            page.after = listing.next;
            if page.after.is_none() {
                break;
            }
        }
        let left = |stale: &Stale| stale.rested.as_secs_f64() / stale.allowed.as_secs_f64().max(1e-9);
        stale.sort_by(|a, b| left(b).total_cmp(&left(a)));
        Ok(stale)
    }
}

/// What there is to do.
#[derive(Clone, Copy, Debug)]
pub struct DiscoveryFunctions<'a>(&'a Client);

impl DiscoveryFunctions<'_> {
    /// The workflows that have steps which a worker may take now, by [computed priority](Workflow::computed_priority), highest first.
    pub async fn ready_workflows(&self, limit: usize) -> Result<Vec<ReadyWorkflow>> {
        self.0.store().ready_workflows(limit).await
    }

    /// One workflow, and how many of its steps a worker may take now.
    pub async fn ready_info(&self, id: WorkflowId) -> Result<ReadyWorkflow> {
        let inspection = inspect(self.0, id).await?;
        let ready = inspection.tasks.iter().filter(|task| task.is_claimable()).count();
        Ok(ReadyWorkflow { workflow: inspection.record.workflow, ready: ready as u64 })
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
