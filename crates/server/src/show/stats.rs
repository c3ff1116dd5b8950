//! Numbers: how many tasks and workflows are where, what has happened, what took longest.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;
use windlass::{
    Activity, Analytics, Client, Count, Error, Execution, Name, Stale, State, StepState, SystemHealth,
    WorkflowCount, WorkflowState,
};

/// How many tasks of one sort are in one state.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = TaskCount)]
struct CountJson {
    namespace: String,
    queue: String,
    kind: String,
    /// Whether they are steps of workflows.
    is_step: bool,
    state: &'static str,
    tasks: u64,
}

/// How many workflows of one name are in one state.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = WorkflowCount)]
struct WorkflowCountJson {
    namespace: String,
    name: String,
    state: &'static str,
    workflows: u64,
}

/// How many tasks and workflows are where.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = Stats)]
pub(crate) struct StatsJson {
    /// All tasks.
    tasks: u64,
    /// Tasks by state.
    states: BTreeMap<&'static str, u64>,
    counts: Vec<CountJson>,
    workflows: Vec<WorkflowCountJson>,
}

/// How many tasks and workflows are where.
#[derive(Debug)]
pub(crate) struct Numbers {
    pub(crate) tasks: Vec<Count>,
    pub(crate) workflows: Vec<WorkflowCount>,
}

impl Numbers {
    /// Those of a namespace, or of all.
    pub(crate) async fn read(client: &Client, scope: Option<&Name>) -> Result<Self, Error> {
        let is_wanted = |namespace: &Name| scope.is_none_or(|wanted| wanted == namespace);
        let (mut tasks, mut workflows) = (client.stats().await?, client.workflow_stats().await?);
        tasks.retain(|count| is_wanted(&count.namespace));
        workflows.retain(|count| is_wanted(&count.namespace));
        Ok(Self { tasks, workflows })
    }

    /// Tasks by state; those that there are.
    pub(crate) fn states(&self) -> BTreeMap<State, u64> {
        let mut states = BTreeMap::new();
        for count in &self.tasks {
            *states.entry(count.state).or_default() += count.tasks;
        }
        states
    }
}

impl StatsJson {
    pub(crate) fn of(numbers: &Numbers) -> Self {
        let states = numbers.states();
        let count = |Count { namespace, queue, kind, is_step, state, tasks }: &Count| CountJson {
            namespace: namespace.to_string(),
            queue: queue.to_string(),
            kind: kind.to_string(),
            is_step: *is_step,
            state: state.word(),
            tasks: *tasks,
        };
        let workflow =
            |WorkflowCount { namespace, name, state, workflows }: &WorkflowCount| WorkflowCountJson {
                namespace: namespace.to_string(),
                name: name.to_string(),
                state: state.word(),
                workflows: *workflows,
            };
        Self {
            tasks: states.values().sum(),
            states: State::ALL
                .into_iter()
                .map(|state| (state.word(), states.get(&state).copied().unwrap_or(0)))
                .collect(),
            counts: numbers.tasks.iter().map(count).collect(),
            workflows: numbers.workflows.iter().map(workflow).collect(),
        }
    }
}

/// How all workflows are doing, or those of a namespace, and what has happened lately.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = Analytics)]
pub(crate) struct HealthJson {
    /// 0 to 1.
    health_score: f64,
    is_under_heavy_load: bool,
    /// Workflows by state.
    workflows: BTreeMap<&'static str, u64>,
    /// Steps by state, in the words of document 002.
    steps: BTreeMap<&'static str, u64>,
    total_workflows: u64,
    total_steps: u64,
    /// Workflows that are not over.
    active_workflows: u64,
    namespaces: u64,
    definitions: u64,
    /// From when on the numbers below are counted.
    since: String,
    at: String,
    started: u64,
    completed: u64,
    failed: u64,
    /// In percent.
    completion_rate: f64,
    /// In percent.
    error_rate: f64,
    average_workflow_seconds: f64,
    steps_completed: u64,
    steps_failed: u64,
    average_step_seconds: f64,
}

impl HealthJson {
    pub(crate) fn of(health: &SystemHealth, metrics: &Analytics) -> Self {
        let Analytics { activity, .. } = metrics;
        let Activity { started, completed, failed, steps, failed_steps, .. } = *activity;
        Self {
            health_score: metrics.health_score,
            is_under_heavy_load: health.is_under_heavy_load(),
            workflows: WorkflowState::ALL
                .into_iter()
                .map(|state| (state.word(), health.workflows(state)))
                .collect(),
            steps: StepState::ALL.into_iter().map(|state| (state.word(), health.steps(state))).collect(),
            total_workflows: health.total_workflows(),
            total_steps: health.total_steps(),
            active_workflows: metrics.active_workflows,
            namespaces: metrics.namespaces,
            definitions: metrics.definitions,
            since: metrics.since.to_string(),
            at: metrics.at.to_string(),
            started,
            completed,
            failed,
            completion_rate: metrics.completion_rate(),
            error_rate: metrics.error_rate(),
            average_workflow_seconds: metrics.average_workflow_seconds(),
            steps_completed: steps,
            steps_failed: failed_steps,
            average_step_seconds: metrics.average_step_seconds(),
        }
    }
}

/// A workflow that rests for too long, or nearly.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = StaleWorkflow)]
pub(crate) struct StaleJson {
    workflow: String,
    namespace: String,
    name: String,
    state: &'static str,
    rested_seconds: f64,
    allowed_seconds: f64,
    /// `stale`, or `warning` from 80 % on.
    level: &'static str,
}

impl StaleJson {
    pub(crate) fn of(stale: &Stale) -> Self {
        let workflow = &stale.workflow;
        Self {
            workflow: workflow.id.to_string(),
            namespace: workflow.namespace.to_string(),
            name: workflow.name.to_string(),
            state: workflow.state.word(),
            rested_seconds: stale.rested.as_secs_f64(),
            allowed_seconds: stale.allowed.as_secs_f64(),
            level: stale.word(),
        }
    }
}

/// How long something took: one run, or many together.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = Execution)]
pub(crate) struct ExecutionJson {
    namespace: String,
    /// The name of the definition.
    name: String,
    version: String,
    step: Option<String>,
    workflow: Option<String>,
    task: Option<String>,
    executions: u64,
    errors: u64,
    /// In percent.
    error_rate: f64,
    average_seconds: f64,
    max_seconds: f64,
    min_seconds: f64,
    /// How many steps a workflow has.
    average_steps: f64,
    last_at: String,
}

impl ExecutionJson {
    pub(crate) fn of(one: &Execution) -> Self {
        Self {
            namespace: one.namespace.to_string(),
            name: one.name.to_string(),
            version: one.version.clone(),
            step: one.step.clone(),
            workflow: one.workflow.map(|id| id.to_string()),
            task: one.task.map(|id| id.to_string()),
            executions: one.executions,
            errors: one.errors,
            error_rate: one.error_rate(),
            average_seconds: one.average.as_secs_f64(),
            max_seconds: one.max.as_secs_f64(),
            min_seconds: one.min.as_secs_f64(),
            average_steps: one.steps,
            last_at: one.last_at.to_string(),
        }
    }
}
