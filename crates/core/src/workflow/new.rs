//! Requests for workflows, and how they begin.

use std::collections::HashMap;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::activity::Activity;
use super::cascade::ended_well;
use super::definition::{Definition, Step};
use super::join::{Parents, Verdict};
use super::lanes::{EvaluatedLane, Lanes};
use super::{Blueprint, Counts, Place, Waits, Workflow, WorkflowEntry, WorkflowId, WorkflowState};
use crate::history::{Entry, Reason};
use crate::id::{TaskId, Token};
use crate::json::Json;
use crate::lane::Lane;
use crate::limits;
use crate::name::{Name, check_key, stored_text};
use crate::rank::{Ageing, rank};
use crate::rejected::{Invalid, Rejected};
use crate::state::State;
use crate::task::{OnConflict, Spec, Status, Task};
use crate::time::Timestamp;
use crate::trace::TraceParent;
use crate::transition::Ended;

/// Where the description of a workflow comes from.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Source {
    /// A definition that the store has.
    Named {
        /// Its name.
        name: Name,
        /// Which of that name; the newest if absent.
        version: Option<String>,
    },
    /// It is given here, for this workflow alone.
    AdHoc(#[serde(with = "crate::wire::text")] Box<Definition>),
}

/// A request for a workflow. Start from [`NewWorkflow::new`] and set what differs from the defaults.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NewWorkflow {
    /// Chosen by whoever starts it; refused if it exists.
    pub id: WorkflowId,
    /// Tenant; `default` by default.
    pub namespace: Name,
    /// What it is.
    pub source: Source,
    /// What expressions call `input`.
    pub input: Json,
    /// Idempotency key, unique per namespace and name while the workflow exists.
    pub key: Option<String>,
    /// What a second start of the key means.
    pub on_conflict: OnConflict,
    /// Added to that of its steps; higher first.
    pub priority: i32,
    /// The claim of the step that it is, if it is one. The step then waits for it.
    pub parent: Option<Token>,
    /// The workflow that it repeats from a step on.
    pub origin: Option<WorkflowId>,
    /// Results of steps that are done already: those steps are not run.
    pub carried: Vec<(u32, Json)>,
    /// The keys of lanes that hold expressions, evaluated. A list whose key differs from item to item has
    /// none.
    pub lanes: Vec<EvaluatedLane>,
    /// What its steps are part of, for who follows requests through many programs; of a workflow that is a
    /// step, what that step is part of by default.
    pub traceparent: Option<TraceParent>,
    /// Who starts it, for the history.
    pub actor: Option<String>,
}

impl NewWorkflow {
    /// A workflow with all defaults.
    #[must_use]
    pub fn new(id: WorkflowId, source: Source, input: Json) -> Self {
        Self {
            id,
            namespace: Name::default(),
            source,
            input,
            key: None,
            on_conflict: OnConflict::default(),
            priority: 0,
            parent: None,
            origin: None,
            carried: Vec::new(),
            lanes: Vec::new(),
            traceparent: None,
            actor: None,
        }
    }

    /// Whether every value is within its limits.
    pub fn check(&self) -> Result<(), Invalid> {
        if WorkflowId::of(self.id.step(0)) != self.id {
            let id = self.id.to_string();
            return Err(Invalid::new(
                "workflow id",
                &id,
                "one whose last 34 bits are 0: they number its tasks",
            ));
        }
        match &self.key {
            Some(key) => check_key("idempotency key", key, limits::KEY_BYTES),
            None => Ok(()),
        }
    }

    /// The workflow and its steps as they begin. `version` is that of the definition, `within` where it is.
    /// Its lanes [were checked](Self::check_lanes).
    #[must_use]
    pub fn admit(self, blueprint: &Blueprint, version: String, within: Within, now: Timestamp) -> Admission {
        let traceparent = self.traceparent.or(within.traceparent);
        let mut workflow = Workflow {
            id: self.id,
            namespace: self.namespace,
            name: blueprint.definition().name.clone(),
            version,
            key: self.key,
            priority: self.priority,
            parent: self.parent.map(|token| token.task),
            nesting: within.nesting,
            origin: self.origin,
            created_at: now,
            state: WorkflowState::Pending,
            paused: false,
            counts: Counts::default(),
            retries: 0,
            owner: None,
            updated_at: now,
            finished_at: None,
            entries: 1,
        };
        let actor = self.actor.as_deref().map(stored_text);
        let first = WorkflowEntry {
            seq: 1,
            from: None,
            to: WorkflowState::Pending,
            at: now,
            actor: actor.clone(),
            note: self.origin.map(|origin| format!("repeats workflow {origin}")),
        };
        let carried: HashMap<u32, Json> = self.carried.into_iter().collect();
        let lanes = Lanes::of(&self.lanes);
        let mut steps = Vec::with_capacity(blueprint.len() as usize);
        for (number, step) in (0..).zip(&blueprint.definition().steps) {
            let result = carried.get(&number);
            let mut new = begin(&workflow, blueprint, number, step, &carried, traceparent, now);
            new.spec.lane = lanes.lane(number, step).ok().flatten();
            workflow.counts.add(&new.status);
            let note = result.and(self.origin).map(|origin| format!("taken over from workflow {origin}"));
            let entry = Entry {
                seq: 1,
                from: None,
                to: new.status.state,
                at: now,
                actor: actor.clone(),
                reason: Reason::Submitted,
                note,
            };
            steps.push((new, result.cloned(), entry));
        }
        let mut entries = vec![first];
        let state = WorkflowState::of(&workflow.counts);
        entries.extend(workflow.move_to(state, now, None, None));
        let is_over = workflow.state.is_final();
        let ended = workflow.parent.filter(|_| is_over).map(|parent| {
            let sinks = blueprint.graph().sinks().filter_map(|sink| steps.get(sink as usize));
            let results: Vec<_> = sinks.map(|(_, result, _)| result.clone()).collect();
            (parent, ended_well(blueprint, &results))
        });
        let mut activity = Activity { started: 1, ..Activity::default() };
        activity.note_workflow(&workflow, &entries);
        Admission { workflow, entries, input: self.input, steps, ended, activity }
    }
}

/// Where a workflow is: within the step that it is, or within nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Within {
    /// How many workflows it is within.
    pub nesting: u32,
    /// What the step is part of.
    pub traceparent: Option<TraceParent>,
}

impl Within {
    /// Within a step, if the step's workflow is not as deep as can be already.
    pub fn step(step: &Task, parent: Option<&Workflow>, id: WorkflowId) -> Result<Self, Rejected> {
        let nesting = parent.map_or(0, |parent| parent.nesting + 1);
        if nesting > limits::NESTING {
            return Err(Rejected::TooDeep { workflow: id });
        }
        Ok(Self { nesting, traceparent: step.spec.traceparent })
    }
}

/// A workflow as it begins.
#[derive(Clone, PartialEq, Debug)]
pub struct Admission {
    /// Its row.
    pub workflow: Workflow,
    /// The beginning of its history.
    pub entries: Vec<WorkflowEntry>,
    /// Its input.
    pub input: Json,
    /// Its steps in order, each with its result, if it has one already, and the first row of its history.
    pub steps: Vec<(Task, Option<Json>, Entry)>,
    /// The step that it is, and how it has ended, if it has nothing to do.
    pub ended: Option<(TaskId, Ended)>,
    /// What is to be counted of it.
    pub activity: Activity,
}

/// A step as it begins, in no lane.
fn begin(
    workflow: &Workflow,
    blueprint: &Blueprint,
    number: u32,
    step: &Step,
    carried: &HashMap<u32, Json>,
    traceparent: Option<TraceParent>,
    now: Timestamp,
) -> Task {
    let defaults = &blueprint.definition().defaults;
    let parents = blueprint.graph().parents(number);
    let state_of = |parent: &u32| match carried.contains_key(parent) {
        true => State::ResolvedManually,
        false => State::Waiting,
    };
    let known = Parents::all(step.join, parents.iter().map(state_of));
    let (state, waits) = if carried.contains_key(&number) {
        (State::ResolvedManually, Waits::Nothing)
    } else {
        match known.verdict(step.join, u32::try_from(parents.len()).unwrap_or(u32::MAX)) {
            Verdict::Start => (State::Pending, Waits::Nothing),
            _ => (State::Waiting, Waits::Parents(known)),
        }
    };
    let spec = Spec {
        namespace: workflow.namespace.clone(),
        queue: step.queue.clone().or_else(|| defaults.queue.clone()).unwrap_or_default(),
        kind: step.kind_in(&workflow.version),
        priority: workflow.priority.saturating_add(step.priority.or(defaults.priority).unwrap_or(0)),
        ageing: Ageing::default(),
        key: None,
        lane: None,
        timeout: blueprint.definition().timeout(step),
        tags: Vec::new(),
        max_attempts: step.retry.attempts(&defaults.retry).and_then(NonZeroU32::new),
        retry: step.retry.policy(&defaults.retry),
        created_at: now,
        workflow: Some(workflow.id),
        traceparent,
    };
    let status = Status { waits, ..Status::new(state, rank(spec.priority, spec.ageing, now, 0), now) };
    Task { id: workflow.id.step(number), spec, status }
}

/// The task for one item of a step's list. It waits if the workflow is paused.
#[must_use]
pub(crate) fn item(
    step: &Task,
    workflow: &Workflow,
    index: u32,
    lane: Option<&Lane>,
    now: Timestamp,
) -> (Task, Entry) {
    let place = Place { step: Place::of(step.id).step, item: Some(index) };
    let spec = Spec { lane: lane.or(step.spec.lane.as_ref()).cloned(), created_at: now, ..step.spec.clone() };
    let (state, waits) = match workflow.paused {
        true => (State::Waiting, Waits::Resume),
        false => (State::Pending, Waits::Nothing),
    };
    let status = Status { waits, ..Status::new(state, rank(spec.priority, spec.ageing, now, 0), now) };
    let entry = Entry {
        seq: 1,
        from: None,
        to: state,
        at: now,
        actor: step.status.worker.as_ref().map(|worker| worker.as_str().to_owned()),
        reason: Reason::Submitted,
        note: None,
    };
    (Task { id: workflow.id.task(place), spec, status }, entry)
}
