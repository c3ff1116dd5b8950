//! Steps at run time: what the expressions of a definition mean for the step that a worker has claimed.
//!
//! A step is decided where it runs: its worker evaluates the condition, the list and the input, in the
//! attempt that then runs the handler. So stores know nothing of expressions, and a worker that dies in the
//! middle has decided nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::time::{Duration, Instant, sleep};
use tracing::warn;
use windlass_core::{
    Action, Blueprint, Json, Name, NewWorkflow, Outcome, Place, Rejected, Shared, Source, Step, TaskId,
    Token, WorkflowId,
};
use windlass_store::{Error, Store};

use crate::client::Client;
use crate::error::TaskError;
use crate::evaluators::{self, Busy};
use crate::flow::{Bound, Expressions, Scope, check_input, evaluate_lanes, item_lanes};
use crate::ids::workflow_id;

/// A workflow as far as its steps need to know it. None of it ever changes.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) id: WorkflowId,
    pub(crate) namespace: Name,
    pub(crate) name: Name,
    pub(crate) version: String,
    pub(crate) priority: i32,
    pub(crate) input: Json,
    pub(crate) blueprint: Arc<Blueprint>,
}

impl Flow {
    /// The step of a task.
    pub(crate) fn step(&self, task: TaskId) -> Option<&Step> {
        self.blueprint.step(Place::of(task).step)
    }

    /// About how much memory it takes.
    fn bytes(&self) -> usize {
        const STEP: usize = 512;
        self.input.as_str().len() + STEP * (self.blueprint.len() as usize + 1)
    }
}

/// Workflows that were looked up before.
#[derive(Debug, Default)]
pub(crate) struct Flows(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    flows: HashMap<WorkflowId, Arc<Flow>>,
    /// Of all of them, about.
    bytes: usize,
}

impl Known {
    /// Adds one. Before there are more than so many bytes all others are forgotten: those in use are soon
    /// looked up again.
    fn put(&mut self, flow: &Arc<Flow>, most: usize) {
        if self.bytes + flow.bytes() > most {
            *self = Self::default();
        }
        if self.flows.insert(flow.id, flow.clone()).is_none() {
            self.bytes += flow.bytes();
        }
    }
}

impl Flows {
    /// Of inputs and definitions together; more than the workflows that a program works on at once.
    const MOST_BYTES: usize = 64 << 20;

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn get(&self, store: &dyn Store, id: WorkflowId) -> Result<Arc<Flow>, Error> {
        let known = self.known().flows.get(&id).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let record = store.workflow(id).await?.ok_or(Rejected::UnknownWorkflow { workflow: id })?;
        let windlass_core::Workflow { namespace, name, version, priority, .. } = record.workflow;
        let (input, blueprint) = (record.input, record.blueprint);
        let flow = Arc::new(Flow { id, namespace, name, version, priority, input, blueprint });
        self.known().put(&flow, Self::MOST_BYTES);
        Ok(flow)
    }
}

/// What is to be done with a step that was claimed.
#[derive(Debug)]
pub(crate) enum Prepared {
    /// Its handler runs, and is given this.
    Run(Arc<Flow>, Json),
    /// It is over, or goes on elsewhere, without its handler.
    Ended(Outcome),
    /// It has started the workflow that it is, and the store knows.
    Nested,
}

/// A step that was claimed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClaimedStep<'a> {
    pub(crate) client: &'a Client,
    pub(crate) workflow: WorkflowId,
    /// Proof of the claim.
    pub(crate) token: &'a Token,
    /// What came with the claim.
    pub(crate) payload: &'a Json,
    /// How long it may wait for an evaluator; absent, as long as it takes. What has begun by then comes to
    /// its end.
    pub(crate) until: Option<Instant>,
}

/// Units of work of expressions that are evaluated where they are needed. Half a millisecond at most;
/// ordinary expressions take hundredths of that. What needs more is done anew, with all it may have, by an
/// [evaluator](evaluators).
const FUEL_HERE: usize = 10_000;

/// Bytes of expressions that are compiled where they are needed, and of what they read there.
const SOURCE_HERE: usize = 1 << 10;
const SCOPE_HERE: usize = 16 << 10;

/// Decides about a step. Waits for a store that does not answer: that is not the step's failure.
pub(crate) async fn prepare(step: ClaimedStep<'_>) -> Prepared {
    match answered(step.token.task, None, || decide(step)).await {
        Ok(Ok(prepared)) => prepared,
        Ok(Err(failed)) => Prepared::Ended(failed.outcome()),
        Err(error) => Prepared::Ended(TaskError::retry(error).outcome()),
    }
}

/// Asks a store, for a step, until it answers, or does not by `until`.
pub(crate) async fn answered<T, F: Future<Output = Result<T, Error>>>(
    task: TaskId,
    until: Option<Instant>,
    ask: impl Fn() -> F,
) -> Result<T, Error> {
    let mut wait = Duration::from_millis(50);
    loop {
        match ask().await {
            Err(Error::Unavailable(why) | Error::Unknown(why))
                if until.is_none_or(|until| Instant::now() + wait < until) =>
            {
                warn!(%task, why, "a step waits for the store");
                sleep(wait).await;
                wait = (wait * 2).min(Duration::from_secs(5));
            }
            answer => return answer,
        }
    }
}

/// The outer error is the store's, the inner one the step's.
pub(crate) async fn decide(claimed: ClaimedStep<'_>) -> Result<Result<Prepared, TaskError>, Error> {
    let store = &*claimed.client.store;
    let flow = claimed.client.flows.get(store, claimed.workflow).await?;
    let Place { step: number, item } = Place::of(claimed.token.task);
    let Some(step) = flow.blueprint.step(number) else {
        return Ok(Err(TaskError::fail("the definition of its workflow has no such step")));
    };
    let is_plain = step.condition.is_none() && step.map.is_none() && step.input.is_none();
    let payload = if item.is_some() {
        claimed.payload.clone()
    } else if is_plain {
        flow.input.clone()
    } else {
        match evaluate(store, &flow, number, step, claimed.until).await? {
            Ok(Evaluated::Given(payload)) => payload,
            Ok(Evaluated::Ended(outcome)) => return Ok(Ok(Prepared::Ended(outcome))),
            Err(failed) => return Ok(Err(failed)),
        }
    };
    match step.action() {
        Some(Action::Workflow(child)) => {
            let source = Source::Named { name: child.name.clone(), version: child.version.clone() };
            nest(store, claimed, &flow, source, payload).await
        }
        _ => Ok(Ok(Prepared::Run(flow, payload))),
    }
}

/// What the expressions of a step give.
enum Evaluated {
    /// What it is given.
    Given(Json),
    /// It does not run itself.
    Ended(Outcome),
}

/// Has an evaluator do something. That it is not done in time is no more the step's failure than that a store
/// does not answer in time.
async fn elsewhere<T: Send + 'static>(
    until: Option<Instant>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    match until {
        None => Ok(evaluators::run(work).await),
        Some(until) => evaluators::run_by(until, work)
            .await
            .map_err(|Busy| Error::Unavailable("all evaluators of expressions are busy".into())),
    }
}

async fn evaluate(
    store: &dyn Store,
    flow: &Arc<Flow>,
    number: u32,
    step: &Step,
    until: Option<Instant>,
) -> Result<Result<Evaluated, TaskError>, Error> {
    // Each is needed once, unless an attempt fails: they are not kept.
    let compiled = match is_short(step) {
        true => Expressions::of(step),
        false => {
            let step = step.clone();
            elsewhere(until, move || Expressions::of(&step)).await?
        }
    };
    let expressions = match compiled {
        Ok(expressions) => expressions,
        Err(flaws) => {
            let flaws: Vec<String> = flaws.iter().map(ToString::to_string).collect();
            return Ok(Err(TaskError::fail(flaws.join("; "))));
        }
    };
    let wanted = expressions.wanted(&flow.blueprint, number);
    let results = match wanted.is_empty() {
        true => Vec::new(),
        false => store.results(wanted.iter().map(|step| flow.id.step(*step)).collect()).await?,
    };
    let evaluation = Evaluation { flow: flow.clone(), number, expressions, wanted, results };
    let decided = match evaluation.decide_here() {
        Some(decided) => decided,
        None => elsewhere(until, move || evaluation.decide()).await?,
    };
    Ok(decided.map_err(TaskError::fail))
}

/// Whether the expressions of a step are compiled sooner than they are handed to an evaluator.
fn is_short(step: &Step) -> bool {
    fn count(value: &Value) -> usize {
        match value {
            Value::String(text) if text.contains("${") => text.len(),
            Value::Array(items) => items.iter().map(count).sum(),
            Value::Object(entries) => entries.values().map(count).sum(),
            _ => 0,
        }
    }
    let list =
        step.map.as_ref().map_or(0, |map| map.over.as_str().map_or_else(|| count(&map.over), str::len));
    let condition = step.condition.as_ref().map_or(0, String::len);
    condition + list + step.input.as_ref().map_or(0, count) <= SOURCE_HERE
}

/// Everything that the expressions of a step need.
struct Evaluation {
    flow: Arc<Flow>,
    number: u32,
    expressions: Expressions,
    wanted: Vec<u32>,
    /// Of each that is wanted.
    results: Vec<Option<Json>>,
}

impl Evaluation {
    /// What the expressions give, if that takes little work.
    fn decide_here(&self) -> Option<Result<Evaluated, String>> {
        let results = self.results.iter().flatten().map(|result| result.as_str().len()).sum::<usize>();
        let has_lanes =
            self.flow.blueprint.step(self.number).is_some_and(|step| {
                step.map.is_some() && step.lane.as_ref().is_some_and(Shared::is_template)
            });
        if has_lanes || self.flow.input.as_str().len() + results > SCOPE_HERE {
            return None;
        }
        let scope = match self.scope() {
            Ok(scope) => scope,
            Err(error) => return Some(Err(error)),
        };
        let bound = self.expressions.bind_within(&scope, FUEL_HERE);
        let decided = self.decide_with(&bound);
        (!bound.is_exhausted()).then_some(decided)
    }

    /// What the expressions give, however much work it takes.
    fn decide(&self) -> Result<Evaluated, String> {
        let scope = self.scope()?;
        self.decide_with(&self.expressions.bind(&scope))
    }

    fn scope(&self) -> Result<Scope, String> {
        let Self { flow, wanted, results, .. } = self;
        let mut scope = Scope::new(flow.id, &flow.name, &flow.version, &flow.input)?;
        for (ancestor, result) in wanted.iter().zip(results) {
            let name = flow.blueprint.step(*ancestor).map_or("", |step| &step.name);
            scope.add(name, result.as_ref())?;
        }
        Ok(scope)
    }

    fn decide_with(&self, bound: &Bound<'_>) -> Result<Evaluated, String> {
        let step = self.flow.blueprint.step(self.number);
        if bound.condition()? == Some(false) {
            let condition = step.and_then(|step| step.condition.as_deref()).unwrap_or_default();
            return Ok(Evaluated::Ended(Outcome::Skipped {
                note: format!("its condition is false: {condition}"),
            }));
        }
        let Some(list) = bound.list()? else { return Ok(Evaluated::Given(bound.input()?)) };
        let items = (0..).zip(&list).map(|(index, item)| bound.item(index, item));
        let items = items.collect::<Result<Vec<Json>, String>>()?;
        let max_parallel = step.and_then(|step| step.map.as_ref()).and_then(|map| map.max_parallel);
        let lanes = step.map_or(Ok(Vec::new()), |step| item_lanes(step, &self.flow.input, &list))?;
        Ok(Evaluated::Ended(Outcome::Expanded { items, max_parallel, lanes }))
    }
}

/// Starts the workflow that a step is.
async fn nest(
    store: &dyn Store,
    ClaimedStep { token, until, .. }: ClaimedStep<'_>,
    flow: &Flow,
    source: Source,
    input: Json,
) -> Result<Result<Prepared, TaskError>, Error> {
    let mut lanes = Vec::new();
    if let Source::Named { name, version } = &source
        && let Some(found) =
            store.definition(flow.namespace.clone(), name.clone(), version.as_deref().map(Into::into)).await?
    {
        let (blueprint, given) = (found.blueprint, input.clone());
        let check = move || {
            check_input(blueprint.definition(), given.as_str())?;
            evaluate_lanes(&blueprint, &given)
        };
        match elsewhere(until, check).await? {
            Ok(evaluated) => lanes = evaluated,
            Err(invalid) => return Ok(Err(TaskError::fail(invalid))),
        }
    }
    let new = NewWorkflow {
        namespace: flow.namespace.clone(),
        priority: flow.priority,
        parent: Some(token.clone()),
        lanes,
        actor: Some(token.worker.to_string()),
        ..NewWorkflow::new(workflow_id(), source, input)
    };
    match store.start(new).await {
        Ok(_) => Ok(Ok(Prepared::Nested)),
        // The definition may be there the next time, and one that was replaced just now is evaluated anew.
        Err(Error::Rejected(
            rejected @ (Rejected::UnknownDefinition { .. } | Rejected::LaneNotEvaluated { .. }),
        )) => Ok(Err(TaskError::retry(rejected))),
        Err(Error::Rejected(rejected)) => Ok(Err(TaskError::fail(rejected))),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::Definition;

    use super::*;

    fn flow(n: u8, input: usize) -> Arc<Flow> {
        let definition = Definition::builder("x").step(Step::task("a", "x")).build().unwrap();
        Arc::new(Flow {
            id: WorkflowId::from_bytes([n; 16]),
            namespace: Name::default(),
            name: Name::default(),
            version: "1".into(),
            priority: 0,
            input: Json::stored(&format!("\"{}\"", "x".repeat(input))),
            blueprint: Arc::new(Blueprint::of(definition).unwrap()),
        })
    }

    #[test]
    fn what_is_known_of_workflows_does_not_grow_for_ever() {
        const MOST: usize = 100_000;
        let mut known = Known::default();
        for n in 0..20 {
            known.put(&flow(n, MOST / 4), MOST);
            known.put(&flow(n, MOST / 4), MOST);
            assert!(known.flows.contains_key(&flow(n, 0).id), "the last one is there");
            assert!(known.bytes <= MOST && known.flows.len() <= 3, "{}", known.bytes);
        }
        known.put(&flow(200, 2 * MOST), MOST);
        assert_eq!(known.flows.len(), 1, "one that is larger than all may be is there alone");
        known.put(&flow(201, 1), MOST);
        assert_eq!(known.flows.keys().collect::<Vec<_>>(), [&flow(201, 0).id]);
        assert_eq!(known.bytes, flow(201, 1).bytes());
    }
}
