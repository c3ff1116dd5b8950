//! What programs do with workflows: define them, start them, look at them, wait for them, intervene.

mod explain;

use std::collections::BTreeSet;
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use tracing::Instrument;
use uuid::Uuid;
use windlass_core::{
    BlockingReason, Blueprint, By, Child, Command, Definition, EvaluatedLane, ExecutionContext, Flaw,
    Identity, Invalid, Json, Name, NewWorkflow, OnConflict, Parents, Place, Rejected, Shared, Source, State,
    Steering, Task, TaskId, Timestamp, TraceParent, Workflow, WorkflowId,
};
use windlass_store::{
    Defined, DefinitionLine, Error, Filter, Page, Receipt, Result, Started, StoredDefinition, WorkflowFilter,
    WorkflowListing, WorkflowRecord,
};

use crate::client::{Client, Looks};
use crate::evaluators;
use crate::flow::{
    KnownDefinitions, Problem, check_input, children, evaluate_lanes, lint, lint_lanes, refuse_lanes,
};
use crate::ids::workflow_id;
use crate::{observe, trace};

pub use explain::{Missing, MissingStep, StepAncestor, StepExplanation, StepWaits};

impl Client {
    /// Keeps a definition in this namespace. The same content gives the same version.
    pub async fn define(&self, definition: Definition) -> Result<Defined> {
        let blueprint = evaluators::run(move || check_definition(definition)).await?;
        let below = self.definitions_below(&self.namespace, &blueprint).await?;
        check_flaws(lint_lanes(&blueprint, &below))?;
        self.store.define(self.namespace.clone(), blueprint.into_definition()).await
    }

    /// A definition of this namespace; the newest of that name if no version is asked for.
    pub async fn definition(&self, name: &str, version: Option<&str>) -> Result<Option<StoredDefinition>> {
        self.store
            .definition(self.namespace.clone(), Name::new("definition", name)?, version.map(Into::into))
            .await
    }

    /// The newest version of each definition of this namespace, or all versions of one of them.
    pub async fn definitions(&self, name: Option<&str>) -> Result<Vec<DefinitionLine>> {
        let name = name.map(|name| Name::new("definition", name)).transpose()?;
        self.store.definitions(self.namespace.clone(), name.as_ref().cloned()).await
    }

    /// A workflow to start, of a definition that the store has. Set what differs from the defaults, then
    /// `.await` it.
    pub fn start(&self, definition: &str) -> Start {
        let source = Name::new("definition", definition).map(|name| Source::Named { name, version: None });
        Start::new(self.clone(), source)
    }

    /// A workflow to start, with a definition for this one alone.
    pub fn start_ad_hoc(&self, definition: Definition) -> Start {
        Start::new(self.clone(), Ok(Source::AdHoc(Box::new(definition))))
    }

    /// A workflow with its definition, input and history.
    pub async fn workflow(&self, id: WorkflowId) -> Result<Option<WorkflowRecord>> {
        self.store.workflow(id).await
    }

    /// A page of workflows, newest first unless the page says otherwise. All namespaces, unless the filter
    /// says otherwise.
    pub async fn workflows(&self, filter: WorkflowFilter, page: Page) -> Result<WorkflowListing> {
        self.store.workflows(filter, page).await
    }

    /// A workflow with all its steps and items, and what keeps them.
    pub async fn inspect(&self, id: WorkflowId) -> Result<Option<Inspection>> {
        let Some(record) = self.store.workflow(id).await? else { return Ok(None) };
        let filter = Filter { workflow: Some(id), ..Filter::default() };
        let mut page = Page { limit: windlass_core::limits::PAGE, after: None, oldest_first: true };
        let mut tasks = Vec::new();
        loop {
            let listing = self.store.tasks(filter.clone(), page).await?;
            tasks.extend(listing.tasks);
            page.after = listing.next;
            if page.after.is_none() {
                let at = self.store.now().await?;
                return Ok(Some(Inspection { record, tasks, at }));
            }
        }
    }

    /// Waits until a workflow is over, or is blocked by failures.
    pub async fn wait_for_workflow(&self, id: WorkflowId) -> Result<WorkflowRecord> {
        let mut looks = Looks::new(self);
        loop {
            looks.begin();
            let record = self.store.workflow(id).await?.ok_or(Rejected::UnknownWorkflow { workflow: id })?;
            if record.workflow.is_settled() {
                return Ok(record);
            }
            looks.rest().await;
        }
    }

    /// What the last steps of a workflow have returned, by name.
    pub async fn output(&self, record: &WorkflowRecord) -> Result<Vec<(Name, Option<Json>)>> {
        let (id, blueprint) = (record.workflow.id, &record.blueprint);
        let sinks: Vec<u32> = blueprint.graph().sinks().collect();
        let results = self.store.results(sinks.iter().map(|sink| id.step(*sink)).collect()).await?;
        let names = sinks.iter().filter_map(|sink| blueprint.step(*sink)).map(|step| step.name.clone());
        Ok(names.zip(results).collect())
    }

    /// Changes a workflow as a whole.
    pub async fn steer(&self, id: WorkflowId, steering: Steering, by: By) -> Result<Workflow> {
        self.store.steer(id, steering, by).await
    }

    /// The task of a step, written `publish` or, for an item of one, `regions[3]`.
    pub async fn step(&self, id: WorkflowId, step: &str) -> Result<TaskId> {
        let record = self.store.workflow(id).await?.ok_or(Rejected::UnknownWorkflow { workflow: id })?;
        Ok(id.task(place(&record.blueprint, step)?))
    }

    /// The name of a task in its workflow, if it is part of one: `publish`, or `regions[3]` for an item.
    pub async fn step_name(&self, task: &Task) -> Result<Option<String>> {
        let Some(workflow) = task.spec.workflow else { return Ok(None) };
        let flow = match self.flows.get(&*self.store, workflow).await {
            Err(Error::Rejected(Rejected::UnknownWorkflow { .. })) => return Ok(None),
            flow => flow?,
        };
        let step = flow.step(task.id);
        Ok(step.map(|step| Workflow::place_name(&step.name, Place::of(task.id))))
    }

    /// Decides that a step is not needed.
    pub async fn skip(&self, step: TaskId, by: By) -> Result<Receipt> {
        Ok(self.store.apply(vec![Command::Skip { task: step, by }]).await?.remove(0)?)
    }

    /// Starts a workflow that repeats another from a step on: what that step does not come before is taken
    /// over if it is done. It is part of the same trace.
    pub async fn rerun(&self, id: WorkflowId, from: &str, by: By) -> Result<Started> {
        self.start_new(self.build_rerun(id, from, by).await?).await
    }

    /// The workflow that [`rerun`](Self::rerun) starts.
    pub async fn build_rerun(&self, id: WorkflowId, from: &str, by: By) -> Result<NewWorkflow> {
        let unknown = Rejected::UnknownWorkflow { workflow: id };
        let Inspection { record, tasks, .. } = self.inspect(id).await?.ok_or(unknown)?;
        let (workflow, blueprint) = (&record.workflow, &record.blueprint);
        let again = descendants(blueprint, place(blueprint, from)?.step);
        let is_done = |task: &&Task| matches!(task.status.state, State::Completed | State::ResolvedManually);
        let done = tasks.iter().filter(is_done).map(|task| Place::of(task.id));
        let kept: Vec<u32> = done
            .filter(|place| place.item.is_none() && !again.contains(&place.step))
            .map(|place| place.step)
            .collect();
        let results = self.store.results(kept.iter().map(|step| id.step(*step)).collect()).await?;
        let carried = kept.into_iter().zip(results).map(|(step, result)| (step, result.unwrap_or_default()));
        let source = match Workflow::is_own_version(&workflow.version) {
            true => Source::AdHoc(Box::new(blueprint.definition().clone())),
            false => Source::Named { name: workflow.name.clone(), version: Some(workflow.version.clone()) },
        };
        Ok(NewWorkflow {
            namespace: workflow.namespace.clone(),
            priority: workflow.priority,
            origin: Some(id),
            carried: carried.collect(),
            lanes: evaluate_start(blueprint, &record.input).await?,
            traceparent: tasks.iter().find_map(|task| task.spec.traceparent),
            actor: by.actor,
            ..NewWorkflow::new(workflow_id(), source, record.input.clone())
        })
    }

    /// Checks the input and the identity against the definition, then starts it.
    pub async fn start_workflow(&self, new: NewWorkflow) -> Result<Started> {
        let checked = self.check_start(new).await?;
        self.start_new(checked).await
    }

    /// Checks the input and the identity against the definition, and evaluates the keys of lanes: what is
    /// left is to start it.
    pub async fn check_start(&self, mut new: NewWorkflow) -> Result<NewWorkflow> {
        new.check()?;
        let definition: Arc<Blueprint> = match &mut new.source {
            Source::Named { name, version } => {
                let found =
                    self.store.definition(new.namespace.clone(), name.clone(), version.clone()).await?;
                let unknown =
                    || Rejected::UnknownDefinition { name: name.to_string(), version: version.clone() };
                let found = found.ok_or_else(unknown)?;
                // The one that was checked is the one that is started.
                *version = Some(found.version.clone());
                found.blueprint
            }
            Source::AdHoc(definition) => {
                let definition = (**definition).clone();
                Arc::new(evaluators::run(move || check_definition(definition)).await?)
            }
        };
        let blueprint = definition;
        new.lanes = evaluate_start(&blueprint, &new.input).await?;
        let below = self.definitions_below(&new.namespace, &blueprint).await?;
        if let Some(refused) = refuse_lanes(&new, &blueprint, &below) {
            return Err(refused.into());
        }
        let definition = blueprint.definition();
        match (definition.identity, &new.key) {
            (Identity::Strict, None) => new.key = Some(identity_of(&new.input)),
            (Identity::CallerProvided, None) => {
                let expected = "a key: the definition wants every start to have one";
                return Err(Invalid::new("idempotency key", "", expected).into());
            }
            _ => {}
        }
        Ok(new)
    }

    /// The definitions of workflows below steps that hold a lane while they run: none, if there are no such
    /// steps.
    async fn definitions_below(&self, namespace: &Name, blueprint: &Blueprint) -> Result<KnownDefinitions> {
        let holders = blueprint.definition().steps.iter().filter(|step| step.lane.is_some());
        let mut left: Vec<Child> = holders.filter_map(|step| step.workflow.clone()).collect();
        let mut known = KnownDefinitions::new();
        let mut seen = BTreeSet::new();
        while let Some(Child { name, version }) = left.pop() {
            if !seen.insert((name.clone(), version.clone())) {
                continue;
            }
            let found = self.store.definition(namespace.clone(), name.clone(), version.clone()).await?;
            if let Some(found) = found {
                left.extend(children(&found.blueprint).cloned());
                known.insert((name, version), found.blueprint);
            }
        }
        Ok(known)
    }

    /// Starts a workflow as it is, as part of a span of its own.
    pub async fn start_new(&self, mut new: NewWorkflow) -> Result<Started> {
        let span = observe::starting(&new);
        new.traceparent = new.traceparent.or_else(|| trace::identify(&span));
        self.send_start(new).instrument(span).await
    }

    /// Starts a workflow, and looks for it if the answer is lost.
    async fn send_start(&self, new: NewWorkflow) -> Result<Started> {
        match self.store.start(new.clone()).await {
            Err(Error::Unknown(why)) => match self.store.workflow(new.id).await {
                Ok(Some(record)) => Ok(Started { id: new.id, state: record.workflow.state, created: true }),
                Ok(None) => match self.store.start(new.clone()).await {
                    // The first has come through after all.
                    Err(Error::Rejected(Rejected::WorkflowIdConflict { .. })) => {
                        let record = self.store.workflow(new.id).await?;
                        let state = record.ok_or(Error::Unknown(why))?.workflow.state;
                        Ok(Started { id: new.id, state, created: true })
                    }
                    Ok(started) => {
                        Ok(Started { created: started.created || started.id == new.id, ..started })
                    }
                    again => again,
                },
                Err(_) => Err(Error::Unknown(why)),
            },
            answer => answer,
        }
    }
}

/// Where a step, written by name, is.
fn place(blueprint: &Blueprint, step: &str) -> Result<Place, Invalid> {
    let unknown = || {
        let names: Vec<&str> = blueprint.definition().steps.iter().take(20).map(|step| &*step.name).collect();
        Invalid::new("step", step, format!("one of {}, or an item of one such as name[0]", names.join(", ")))
    };
    let (name, item) = match step.split_once('[') {
        Some((name, rest)) => {
            let item = rest.strip_suffix(']').and_then(|item| item.parse().ok()).ok_or_else(unknown)?;
            (name, Some(item))
        }
        None => (step, None),
    };
    let step = blueprint.number(name).ok_or_else(unknown)?;
    Ok(Place { step, item })
}

/// A step and all that comes after it.
fn descendants(blueprint: &Blueprint, step: u32) -> BTreeSet<u32> {
    let (mut found, mut next) = (BTreeSet::from([step]), vec![step]);
    while let Some(step) = next.pop() {
        next.extend(blueprint.graph().children(step).iter().filter(|child| found.insert(**child)));
    }
    found
}

/// Checks the input of a start and evaluates the keys of its lanes, on an evaluator: what that costs is the
/// caller's choice.
async fn evaluate_start(blueprint: &Arc<Blueprint>, input: &Json) -> Result<Vec<EvaluatedLane>, Invalid> {
    let steps = &blueprint.definition().steps;
    let has_keys = steps.iter().any(|step| step.lane.as_ref().is_some_and(Shared::is_template));
    if blueprint.definition().input.is_none() && !has_keys {
        return Ok(Vec::new());
    }
    let (blueprint, input) = (blueprint.clone(), input.clone());
    evaluators::run(move || {
        check_input(blueprint.definition(), input.as_str())?;
        evaluate_lanes(&blueprint, &input)
    })
    .await
}

/// A definition that is sound, its expressions and its schema too.
fn check_definition(definition: Definition) -> Result<Blueprint, Rejected> {
    let blueprint = Blueprint::of(definition).map_err(|flaws| Rejected::Unsound { flaws })?;
    check_flaws(lint(&blueprint))?;
    Ok(blueprint)
}

fn check_flaws(problems: Vec<Problem>) -> Result<(), Rejected> {
    let problems = problems.into_iter().filter(|problem| !problem.is_warning);
    let flaws: Vec<Flaw> =
        problems.map(|problem| Flaw::new(problem.path, problem.problem, problem.advice)).collect();
    if flaws.is_empty() { Ok(()) } else { Err(Rejected::Unsound { flaws }) }
}

/// A workflow with all its tasks.
#[derive(Clone, PartialEq, Debug)]
pub struct Inspection {
    /// The workflow with its definition, input and history.
    pub record: WorkflowRecord,
    /// Its steps and their items, in the order of their places.
    pub tasks: Vec<Task>,
    /// When it was looked at, by the store's clock.
    pub at: Timestamp,
}

impl Inspection {
    /// How it is doing, in numbers.
    #[must_use]
    pub fn context(&self) -> ExecutionContext {
        ExecutionContext::of(&self.tasks, self.record.workflow.paused, self.at)
    }

    /// The name of a task: `publish`, or `regions[3]` for an item.
    #[must_use]
    pub fn name(&self, task: &Task) -> String {
        let place = Place::of(task.id);
        let step = self.record.blueprint.step(place.step);
        Workflow::place_name(step.map_or("?", |step| &step.name), place)
    }

    /// What keeps a task from running; nothing, if it is ready.
    #[must_use]
    pub fn blocking_reason(&self, task: &Task) -> Option<BlockingReason> {
        BlockingReason::of(task, self.record.workflow.paused, self.at)
    }

    /// The task of a step.
    #[must_use]
    pub fn step(&self, number: u32) -> Option<&Task> {
        let id = self.record.workflow.id.step(number);
        self.tasks.binary_search_by_key(&id, |task| task.id).ok().map(|at| &self.tasks[at])
    }

    /// The parents of a step that are not done (for `all_done`: not over), with where they are.
    pub fn unmet(&self, number: u32) -> impl Iterator<Item = (&Name, State)> {
        let name = |task: &Task| Some(&self.record.blueprint.step(Place::of(task.id).step)?.name);
        self.unmet_tasks(number).filter_map(move |task| Some((name(task)?, task.status.state)))
    }

    fn unmet_tasks(&self, number: u32) -> impl Iterator<Item = &Task> {
        let blueprint = &self.record.blueprint;
        let join = blueprint.step(number).map(|step| step.join).unwrap_or_default();
        let parents = blueprint.graph().parents(number).iter().filter_map(|parent| self.step(*parent));
        parents.filter(move |task| Parents::of(join, task.status.state).met == 0)
    }
}

/// A workflow to start. Set what differs from the defaults, then `.await` it. A value that cannot be accepted
/// is told then.
#[derive(Debug)]
#[must_use = "a workflow is started by awaiting this"]
pub struct Start {
    client: Client,
    new: Result<NewWorkflow, Invalid>,
}

impl Start {
    fn new(client: Client, source: Result<Source, Invalid>) -> Self {
        let namespace = client.namespace.clone();
        let new = source.map(|source| NewWorkflow {
            namespace,
            ..NewWorkflow::new(workflow_id(), source, Json::default())
        });
        Self { client, new }
    }

    fn set(mut self, change: impl FnOnce(&mut NewWorkflow) -> Result<(), Invalid>) -> Self {
        self.new = self.new.and_then(|mut new| change(&mut new).map(|()| new));
        self
    }

    /// Which version of the definition; the newest by default.
    pub fn version(self, version: impl Into<String>) -> Self {
        self.set(|new| {
            if let Source::Named { version: wanted, .. } = &mut new.source {
                *wanted = Some(version.into());
            }
            Ok(())
        })
    }

    /// What expressions call `input`.
    pub fn input(self, input: &impl Serialize) -> Self {
        self.set(|new| {
            let text = serde_json::to_string(input).map_err(|error| {
                Invalid::new("input", "", format!("what can be written as JSON ({error})"))
            })?;
            new.input = Json::new("input", &text)?;
            Ok(())
        })
    }

    /// The same, as JSON.
    pub fn input_json(self, input: &str) -> Self {
        self.set(|new| Json::new("input", input).map(|input| new.input = input))
    }

    /// Idempotency key: while a workflow of this name with this key exists, starting it again answers with
    /// the first.
    pub fn key(self, key: impl Into<String>) -> Self {
        self.set(|new| {
            new.key = Some(key.into());
            Ok(())
        })
    }

    /// Starting a key again is refused instead.
    pub fn reject_duplicate(self) -> Self {
        self.set(|new| {
            new.on_conflict = OnConflict::Reject;
            Ok(())
        })
    }

    /// Added to the priority of its steps; 0 by default.
    pub fn priority(self, priority: i32) -> Self {
        self.set(|new| {
            new.priority = priority;
            Ok(())
        })
    }

    /// Its id, which must be fresh; made up by default. Who makes it can send the same start again.
    pub fn id(self, id: WorkflowId) -> Self {
        self.set(|new| {
            new.id = id;
            Ok(())
        })
    }

    /// What its steps are part of, for who follows requests through many programs. Unless this is said, they
    /// are part of the span that starts it if the program has a [tracer](crate::trace), and of nothing
    /// otherwise.
    pub fn traceparent(self, traceparent: TraceParent) -> Self {
        self.set(|new| {
            new.traceparent = Some(traceparent);
            Ok(())
        })
    }

    /// Who starts it, for the history.
    pub fn actor(self, actor: impl std::fmt::Display) -> Self {
        self.set(|new| {
            new.actor = Some(actor.to_string());
            Ok(())
        })
    }

    /// What was asked for, unchecked.
    pub fn build(self) -> Result<NewWorkflow> {
        Ok(self.new?)
    }

    async fn send(self) -> Result<Started> {
        self.client.start_workflow(self.new?).await
    }
}

impl IntoFuture for Start {
    type Output = Result<Started>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

/// A key that is the same for the same input, however it is written: keys are sorted and blanks left out.
fn identity_of(input: &Json) -> String {
    let value: serde_json::Value = serde_json::from_str(input.as_str()).unwrap_or_default();
    format!("input {}", Uuid::new_v5(&Uuid::NAMESPACE_OID, value.to_string().as_bytes()))
}
