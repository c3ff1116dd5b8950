//! Steps at run time: what the expressions of a definition mean for the step that a worker has claimed.
//!
//! A step is decided where it runs: its worker evaluates the condition, the list and the input, in the attempt that then runs the handler. So stores
//! know nothing of expressions, and a worker that dies in the middle has decided nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::{Duration, Instant, sleep};
use tracing::warn;
use windlass_core::{
    Action, Blueprint, Json, Name, NewWorkflow, Outcome, Place, Rejected, Source, Step, TaskId, Token,
    WorkflowId,
};
use windlass_store::{Error, Store};

use crate::client::Client;
use crate::error::TaskError;
use crate::flow::{Expressions, Scope, check_input, evaluate_lanes, item_lanes};
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
    /// Adds one. Before there are more than so many bytes all others are forgotten: those in use are soon looked up again.
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
}

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
        match evaluate(store, &flow, number, step).await? {
            Ok(Evaluated::Given(payload)) => payload,
            Ok(Evaluated::Ended(outcome)) => return Ok(Ok(Prepared::Ended(outcome))),
            Err(failed) => return Ok(Err(failed)),
        }
    };
    match step.action() {
        Some(Action::Workflow(child)) => {
            let source = Source::Named { name: child.name.clone(), version: child.version.clone() };
            nest(store, claimed.token, &flow, source, payload).await
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

async fn evaluate(
    store: &dyn Store,
    flow: &Flow,
    number: u32,
    step: &Step,
) -> Result<Result<Evaluated, TaskError>, Error> {
    // Each is needed once, unless an attempt fails: they are not kept.
    let expressions = match Expressions::of(step) {
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
    let scope = || -> Result<Scope, String> {
        let mut scope = Scope::new(flow.id, &flow.name, &flow.version, &flow.input)?;
        for (ancestor, result) in wanted.iter().zip(&results) {
            let name = flow.blueprint.step(*ancestor).map_or("", |step| &step.name);
            scope.add(name, result.as_ref())?;
        }
        Ok(scope)
    };
    let decided = scope().and_then(|scope| {
        let bound = expressions.bind(&scope);
        if bound.condition()? == Some(false) {
            let condition = step.condition.as_deref().unwrap_or_default();
            return Ok(Evaluated::Ended(Outcome::Skipped {
                note: format!("its condition is false: {condition}"),
            }));
        }
        let Some(list) = bound.list()? else { return Ok(Evaluated::Given(bound.input()?)) };
        let items = (0..).zip(&list).map(|(index, item)| bound.item(index, item));
        let items = items.collect::<Result<Vec<Json>, String>>()?;
        let max_parallel = step.map.as_ref().and_then(|map| map.max_parallel);
        let lanes = item_lanes(step, &flow.input, &list)?;
        Ok(Evaluated::Ended(Outcome::Expanded { items, max_parallel, lanes }))
    });
    Ok(decided.map_err(TaskError::fail))
}

/// Starts the workflow that a step is.
async fn nest(
    store: &dyn Store,
    token: &Token,
    flow: &Flow,
    source: Source,
    input: Json,
) -> Result<Result<Prepared, TaskError>, Error> {
    let mut lanes = Vec::new();
    if let Source::Named { name, version } = &source
        && let Some(found) =
            store.definition(flow.namespace.clone(), name.clone(), version.as_deref().map(Into::into)).await?
    {
        let blueprint = &found.blueprint;
        let checked = check_input(blueprint.definition(), input.as_str());
        match checked.and_then(|()| evaluate_lanes(blueprint, &input)) {
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
