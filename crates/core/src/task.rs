//! A task: what was asked for ([`Spec`], which never changes) and where it stands ([`Status`]).

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::history::{Entry, Reason};
use crate::id::{Lease, TaskId, WorkerId};
use crate::json::Json;
use crate::lane::{Entity, Lane};
use crate::limits;
use crate::name::{Name, check_key, stored_text};
use crate::rank::{Ageing, rank};
use crate::rejected::Invalid;
use crate::retry::RetryPolicy;
use crate::state::State;
use crate::time::{Timestamp, whole_micros};
use crate::trace::TraceParent;
use crate::workflow::{Waits, WorkflowId};

/// What is accepted as a number of attempts, for errors of Rust programs.
const ATTEMPTS_EXPECTED: &str = "1 to 1000000, or None for no limit";

/// A number of attempts; `None` is no limit.
pub fn attempts(given: Option<u32>) -> Result<Option<NonZeroU32>, Invalid> {
    match given.map(NonZeroU32::new) {
        Some(None) => Err(Invalid::number("max_attempts", 0, ATTEMPTS_EXPECTED)),
        Some(attempts) => Ok(attempts),
        None => Ok(None),
    }
}

/// Attempts of a task that does not say.
pub const DEFAULT_ATTEMPTS: NonZeroU32 = NonZeroU32::new(3).unwrap();

/// When a task may start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Start {
    /// At once.
    #[default]
    Now,
    /// Not before this moment.
    At(Timestamp),
    /// This long after the store, by its own clock, accepts it.
    After(Duration),
}

/// What to do when a task with the same idempotency key exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum OnConflict {
    /// Answer with the existing task's id and `created: false`. Payload differences do not matter.
    #[default]
    Return,
    /// Refuse, naming the existing task.
    Reject,
}

/// A request for a task. Start from [`NewTask::new`] and set what differs from the defaults.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NewTask {
    /// Chosen by the submitter; refused if it exists.
    pub id: TaskId,
    /// Tenant; `default` by default.
    pub namespace: Name,
    /// Line of tasks; `default` by default.
    pub queue: Name,
    /// Finds the handler.
    pub kind: Name,
    /// Input of the handler; `null` by default.
    pub payload: Json,
    /// Higher first; 0 by default.
    pub priority: i32,
    /// How its place improves with time; not at all by default.
    pub ageing: Ageing,
    /// Idempotency key, unique per namespace and kind while the task exists.
    pub key: Option<String>,
    /// What a second submit of the key means.
    pub on_conflict: OnConflict,
    /// Entity or concurrency key.
    pub lane: Option<Lane>,
    /// Whether the entity of the lane must be registered.
    pub require_entity: bool,
    /// When it may start; at once by default.
    pub start: Start,
    /// How long one attempt may take, to the microsecond; unlimited by default.
    pub timeout: Option<Duration>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// Attempts in all; 3 by default, `None` for no limit.
    pub max_attempts: Option<NonZeroU32>,
    /// When failed attempts are tried again.
    pub retry: RetryPolicy,
    /// What it is part of, for who follows requests through many programs. Handed to its handler, and
    /// otherwise not looked at.
    pub traceparent: Option<TraceParent>,
    /// Who submits it, for the history.
    pub actor: Option<String>,
}

impl NewTask {
    /// A task with all defaults.
    #[must_use]
    pub fn new(id: TaskId, kind: Name, payload: Json) -> Self {
        Self {
            id,
            namespace: Name::default(),
            queue: Name::default(),
            kind,
            payload,
            priority: 0,
            ageing: Ageing::default(),
            key: None,
            on_conflict: OnConflict::default(),
            lane: None,
            require_entity: false,
            start: Start::default(),
            timeout: None,
            tags: Vec::new(),
            max_attempts: Some(DEFAULT_ATTEMPTS),
            retry: RetryPolicy::default(),
            traceparent: None,
            actor: None,
        }
    }

    /// Whether every value is within its limits. Names, payload, lane, entity and trace were checked when
    /// they were made.
    pub fn check(&self) -> Result<(), Invalid> {
        if let Some(key) = &self.key {
            check_key("idempotency key", key, limits::KEY_BYTES)?;
        }
        if self.tags.len() > limits::TAGS {
            return Err(Invalid::number("number of tags", self.tags.len(), "at most 32"));
        }
        for tag in &self.tags {
            check_key("tag", tag, limits::TAG_BYTES)?;
        }
        if let Some(max) = self.max_attempts
            && max.get() > limits::MAX_ATTEMPTS
        {
            return Err(Invalid::number("max_attempts", max, ATTEMPTS_EXPECTED));
        }
        if let Some(timeout) = self.timeout
            && !(Duration::from_millis(1)..=limits::TIMEOUT).contains(&timeout)
        {
            return Err(Invalid::number("timeout", timeout, "1 ms to 365 days"));
        }
        self.ageing.check()?;
        self.retry.check()
    }

    /// The entity that must be registered, if the task asks for that.
    #[must_use]
    pub fn required_entity(&self) -> Option<Entity> {
        self.lane.as_ref().filter(|_| self.require_entity).and_then(Lane::entity)
    }

    /// The task as it begins, with the first row of its history. A task in a lane begins without a slot;
    /// the store gives it one, if one is free, in the same transaction.
    #[must_use]
    pub fn admit(self, now: Timestamp) -> (Task, Json, Entry) {
        let due = match self.start {
            Start::Now => now,
            Start::At(at) => at,
            Start::After(delay) => now.plus(delay),
        };
        let state = if due > now { State::Scheduled } else { State::Pending };
        let entry = Entry {
            seq: 1,
            from: None,
            to: state,
            at: now,
            actor: self.actor.as_deref().map(stored_text),
            reason: Reason::Submitted,
            note: None,
        };
        let due_at = (due > now).then_some(due);
        let status = Status { due_at, ..Status::new(state, rank(self.priority, self.ageing, now, 0), now) };
        let spec = Spec {
            namespace: self.namespace,
            queue: self.queue,
            kind: self.kind,
            priority: self.priority,
            ageing: self.ageing,
            key: self.key,
            lane: self.lane,
            timeout: self.timeout.map(whole_micros),
            tags: self.tags,
            max_attempts: self.max_attempts,
            retry: self.retry,
            created_at: now,
            workflow: None,
            traceparent: self.traceparent,
        };
        (Task { id: self.id, spec, status }, self.payload, entry)
    }
}

/// A task, without its payload and result, which are read only when they are wanted.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Task {
    /// Its identity.
    pub id: TaskId,
    /// What was asked for.
    pub spec: Spec,
    /// Where it stands.
    pub status: Status,
}

impl Task {
    /// Whether a worker may be offered it: pending, and not parked behind its lane.
    #[must_use]
    pub fn is_claimable(&self) -> bool {
        self.status.state == State::Pending && !self.is_parked()
    }

    /// Whether it is pending but waits for a slot of its lane.
    #[must_use]
    pub fn is_parked(&self) -> bool {
        self.status.state == State::Pending && self.spec.lane.is_some() && !self.status.slot
    }

    /// Whether the attempts it has used are all it was given.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        let used = self.status.attempt;
        self.spec.max_attempts.is_some_and(|max| used >= max.get())
    }

    /// Whether the worker that has claimed it records the start before it runs the handler: an attempt was
    /// used before, or this is the last one. If such a claim expires without a recorded start, the handler
    /// has not run, and the attempt is given back. So tasks that a dying worker had claimed but not started
    /// lose one attempt at most, and a first attempt of several needs no extra write.
    #[must_use]
    pub fn must_record_start(&self) -> bool {
        self.status.attempt > 1 || self.is_exhausted()
    }

    /// When the running attempt must be over, if it has a time limit.
    #[must_use]
    pub fn deadline(&self) -> Option<Timestamp> {
        Some(self.status.started_at?.plus(self.spec.timeout?))
    }
}

/// What was asked for. Never changes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Spec {
    /// Tenant.
    pub namespace: Name,
    /// Line of tasks.
    pub queue: Name,
    /// Finds the handler.
    pub kind: Name,
    /// Higher first.
    pub priority: i32,
    /// How its place improves with time.
    pub ageing: Ageing,
    /// Idempotency key.
    pub key: Option<String>,
    /// Entity or concurrency key.
    pub lane: Option<Lane>,
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// Attempts in all; `None` is no limit.
    pub max_attempts: Option<NonZeroU32>,
    /// When failed attempts are tried again.
    pub retry: RetryPolicy,
    /// When the store accepted it.
    pub created_at: Timestamp,
    /// The workflow that it is part of. Its place there follows from its id.
    pub workflow: Option<WorkflowId>,
    /// What it is part of, for who follows requests through many programs.
    pub traceparent: Option<TraceParent>,
}

impl Spec {
    /// What identifies its lane, if it is in one.
    #[must_use]
    pub fn lane_key(&self) -> Option<(&Name, &str)> {
        self.lane.as_ref().map(|lane| (&self.namespace, lane.key()))
    }
}

/// Where a task stands: the part of its row that transitions write.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Status {
    /// Where it is.
    pub state: State,
    /// Attempts used. Counted at the claim; given back by a release, a snooze, or an expiry before the start
    /// ([`Task::must_record_start`]).
    pub attempt: u32,
    /// Number of the last claim; 0 before the first. Only ever grows.
    pub lease: Lease,
    /// Who holds it; in a final state, who held it when it ended, if anyone did.
    pub worker: Option<WorkerId>,
    /// When the wait is over. Set if and only if scheduled or waiting for a retry.
    pub due_at: Option<Timestamp>,
    /// When that holder claimed it.
    pub claimed_at: Option<Timestamp>,
    /// When that holder's handler started.
    pub started_at: Option<Timestamp>,
    /// When it became final. Set if and only if it is.
    pub finished_at: Option<Timestamp>,
    /// When anything last changed. Never goes back.
    pub updated_at: Timestamp,
    /// What went wrong. Set if and only if waiting for a retry, failed or in dead letters.
    pub error: Option<String>,
    /// Whether it holds a slot of its lane.
    pub slot: bool,
    /// Its place among the claimable, higher first.
    pub rank: i64,
    /// Rows of its history.
    pub entries: u32,
    /// What it waits for. Set if and only if waiting.
    pub waits: Waits,
}

impl Status {
    /// Where a task stands when it begins.
    #[must_use]
    pub(crate) fn new(state: State, rank: i64, now: Timestamp) -> Self {
        Self {
            state,
            attempt: 0,
            lease: 0,
            worker: None,
            due_at: None,
            claimed_at: None,
            started_at: None,
            finished_at: state.is_final().then_some(now),
            updated_at: now,
            error: None,
            slot: false,
            rank,
            entries: 1,
            waits: Waits::Nothing,
        }
    }
}
