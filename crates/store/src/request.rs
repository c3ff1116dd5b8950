//! What is asked of a store and what it answers, apart from the vocabulary of the core.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use windlass_core::{
    AccessToken, AuditEntry, Command, Entity, Entry, Invalid, Json, Lane, Lease, Name, NewTask, Notes,
    Rejected, Schedule, Spec, State, Status, Task, TaskId, Term, Timestamp, WorkerId, WorkflowId,
    check_subscriptions, limits,
};

use crate::error::{Error, Result};

/// The answer to one submitted task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Submitted {
    /// The task: the one that was asked for, or the one that has the key already.
    pub id: TaskId,
    /// Where it is.
    pub state: State,
    /// Whether it was created now.
    pub created: bool,
}

/// Checks a whole batch before anything is written.
pub(crate) fn check_batch(tasks: &[NewTask]) -> Result<()> {
    if tasks.len() > limits::BATCH {
        return Err(Invalid::number("number of tasks", tasks.len(), "at most 1000 in one batch").into());
    }
    for (index, task) in tasks.iter().enumerate() {
        task.check().map_err(|invalid| in_batch(tasks.len(), index, invalid.into()))?;
    }
    Ok(())
}

/// Whether a number of rows asked for is within bounds.
pub(crate) fn check_limit(limit: usize) -> Result<()> {
    if !(1..=limits::PAGE).contains(&limit) {
        return Err(Invalid::number("limit", limit, "1 to 1000").into());
    }
    Ok(())
}

/// Whether an access token may be kept beside those that are there.
pub(crate) fn check_new_token(
    token: &AccessToken,
    others: usize,
    name_is_taken: bool,
    id_is_taken: bool,
) -> Result<(), Rejected> {
    if others >= limits::ACCESS_TOKENS {
        return Err(Invalid::number("number of access tokens", others + 1, "at most 10000").into());
    }
    let conflict = |field: &'static str, value: &str| {
        Err(Rejected::TokenConflict { field: field.into(), value: value.into() })
    };
    match (name_is_taken, id_is_taken) {
        (true, _) => conflict("name", &token.name),
        (false, true) => conflict("id", &token.id),
        (false, false) => Ok(()),
    }
}

/// The error for one task of a submit: it says which one if there are several.
pub(crate) fn in_batch(len: usize, index: usize, rejected: Rejected) -> Error {
    if len == 1 { Error::Rejected(rejected) } else { Error::InBatch { index, rejected } }
}

/// A worker's request for work.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Claim {
    /// Who asks; it must be registered and alive.
    pub worker: WorkerId,
    /// Whose tasks.
    pub namespace: Name,
    /// From which queues.
    pub queues: Vec<Name>,
    /// Of which kinds.
    pub kinds: Vec<Name>,
    /// How many at most.
    pub limit: usize,
}

impl Claim {
    /// Whether it asks for such tasks.
    pub(crate) fn asks_for(&self, spec: &Spec) -> bool {
        spec.namespace == self.namespace
            && self.queues.contains(&spec.queue)
            && self.kinds.contains(&spec.kind)
    }

    /// How many tasks it promotes at most if it finds nothing but what is due. Not fewer than some: a row
    /// that cannot be read, or is parked when it is promoted, does not keep it from those behind.
    pub(crate) fn most_due(&self) -> usize {
        if self.limit == 0 { 0 } else { self.limit.clamp(limits::DUE_AT_ONCE, limits::BATCH) }
    }
}

/// A task handed to a worker, with all that a handler needs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Claimed {
    /// The task; its lease is the proof of this claim.
    pub task: Task,
    /// The handler's input.
    pub payload: Json,
    /// What the last attempt that said so left behind for the next.
    pub details: Option<Json>,
}

/// One turn of a worker or a leader: report what was done, then take more, in one transaction.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Turn {
    /// Carried out in order, each by itself: one that is refused does not hinder the others.
    pub commands: Vec<Command>,
    /// Then this.
    pub claim: Option<Claim>,
    /// A leader's term. If it is over, nothing is done.
    pub term: Option<Term>,
}

impl Turn {
    /// Whether its size is within bounds.
    pub(crate) fn check(&self) -> Result<()> {
        if self.commands.len() > limits::BATCH {
            let given = self.commands.len();
            return Err(Invalid::number("number of commands", given, "at most 1000 in one turn").into());
        }
        if let Some(claim) = &self.claim {
            check_subscriptions(&claim.queues, &claim.kinds)?;
            if claim.limit > limits::BATCH {
                return Err(Invalid::number("claim limit", claim.limit, "at most 1000").into());
            }
        }
        Ok(())
    }
}

/// The answer to a [`Turn`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Turned {
    /// One answer per command, in order.
    pub receipts: Vec<Result<Receipt, Rejected>>,
    /// What was claimed, best first; or why the worker may not claim, which does not hinder its reports.
    pub claimed: Result<Vec<Claimed>, Rejected>,
}

/// Where a task is after a command that was accepted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Receipt {
    /// The task.
    pub task: TaskId,
    /// Its kind.
    pub kind: Name,
    /// Where it is; where it was, if it was deleted.
    pub state: State,
    /// Attempts used.
    pub attempt: u32,
    /// Its last lease.
    pub lease: Lease,
    /// Whether the command changed anything; not if it had been carried out before.
    pub changed: bool,
}

/// The answer to a heartbeat.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Pulse {
    /// Tasks that the worker no longer holds: stop, and report nothing.
    pub lost: Vec<TaskId>,
    /// Tasks that were cancelled: stop.
    pub cancelled: Vec<TaskId>,
}

impl Pulse {
    /// Sorts one lease that a worker believes to hold; `task` is `None` if it does not exist.
    pub(crate) fn sort(&mut self, worker: &WorkerId, id: TaskId, lease: Lease, task: Option<&Task>) {
        match task.map(|task| &task.status) {
            Some(now) if now.lease == lease && now.worker.as_ref() == Some(worker) && now.state.is_held() => {
            }
            Some(now) if now.lease == lease && now.state == State::Cancelled => self.cancelled.push(id),
            _ => self.lost.push(id),
        }
    }
}

/// What the passing of time asks for.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Due {
    /// To be carried out by the leader; more may follow.
    pub commands: Vec<Command>,
    /// Schedules whose next slot has come, earliest first.
    pub schedules: Vec<Schedule>,
    /// The next moment at which a waiting task or a schedule becomes due, if neither list is full; or an
    /// earlier one, at which a store that was hindered from looking at everything wants to be asked again.
    pub next: Option<Timestamp>,
    /// When the first of the live workers counts as dead, unless it is heard of.
    pub silent_at: Option<Timestamp>,
    /// The store's present, which the other moments are to be compared with.
    pub now: Timestamp,
}

/// A task with everything that belongs to it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The task.
    pub task: Task,
    /// What it was given.
    pub payload: Json,
    /// What it returned, or was resolved with.
    pub result: Option<Json>,
    /// All that happened, oldest first.
    pub history: Vec<Entry>,
    /// What attempts have told about themselves, oldest first; those that told nothing are left out.
    pub notes: Vec<Notes>,
}

/// Which tasks to list. Everything that is set must hold.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Filter {
    /// In one of these states; empty means any.
    pub states: Vec<State>,
    /// Of this namespace.
    pub namespace: Option<Name>,
    /// Of this queue.
    pub queue: Option<Name>,
    /// Of this kind.
    pub kind: Option<Name>,
    /// Acting on this entity.
    pub entity: Option<Entity>,
    /// With this tag.
    pub tag: Option<String>,
    /// Part of this workflow.
    pub workflow: Option<WorkflowId>,
    /// Held by this worker, or last held by it if it is final.
    pub worker: Option<WorkerId>,
    /// Unchanged since before this moment. With the states claimed and running: the stale report.
    pub updated_before: Option<Timestamp>,
}

impl Filter {
    /// Whether `task` is wanted.
    #[must_use]
    pub fn wants(&self, task: &Task) -> bool {
        fn is<T: PartialEq>(wanted: Option<&T>, actual: &T) -> bool {
            wanted.is_none_or(|wanted| wanted == actual)
        }
        let (spec, status) = (&task.spec, &task.status);
        (self.states.is_empty() || self.states.contains(&status.state))
            && is(self.namespace.as_ref(), &spec.namespace)
            && is(self.queue.as_ref(), &spec.queue)
            && is(self.kind.as_ref(), &spec.kind)
            && (self.entity.is_none() || self.entity == spec.lane.as_ref().and_then(Lane::entity))
            && self.tag.as_ref().is_none_or(|tag| spec.tags.contains(tag))
            && (self.workflow.is_none() || self.workflow == spec.workflow)
            && (self.worker.is_none() || self.worker == status.worker)
            && self.updated_before.is_none_or(|before| status.updated_at < before)
    }
}

/// Which part of a listing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Page {
    /// How many tasks at most; 1 to 1,000.
    pub limit: usize,
    /// After this place; from the beginning if absent.
    pub after: Option<Cursor>,
    /// Oldest first instead of newest first.
    pub oldest_first: bool,
}

/// The newest hundred.
impl Default for Page {
    fn default() -> Self {
        Self { limit: 100, after: None, oldest_first: false }
    }
}

impl Page {
    /// Whether the limit is within bounds.
    pub(crate) fn check(&self) -> Result<()> {
        check_limit(self.limit)
    }

    /// The first rows that are wanted, and where to go on. Looks at no more than [`limits::PAGE_SCAN`] rows,
    /// which come in the order of the page, each with its place.
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    pub(crate) fn pick<T, E>(
        &self,
        rows: impl Iterator<Item = Result<(u64, T), E>>,
        is_wanted: impl Fn(&T) -> bool,
    ) -> Result<(Vec<T>, Option<Cursor>), E> {
        let (mut found, mut last) = (Vec::new(), None);
        for (looked_at, row) in rows.enumerate() {
            if found.len() == self.limit || looked_at == limits::PAGE_SCAN {
                return Ok((found, last.map(Cursor)));
            }
            let (place, row) = row?;
            last = Some(place);
            if is_wanted(&row) {
                found.push(row);
            }
        }
        Ok((found, None))
    }

    /// This part of all rows, which are given oldest first, and where to go on.
    pub(crate) fn cut<T>(&self, mut all: Vec<(Cursor, T)>) -> (Vec<T>, Option<Cursor>) {
        if !self.oldest_first {
            all.reverse();
        }
        all.retain(|(place, _)| {
            self.after.is_none_or(|after| if self.oldest_first { *place > after } else { *place < after })
        });
        let more = all.len() > self.limit;
        all.truncate(self.limit);
        let next = all.last().map(|(place, _)| *place).filter(|_| more);
        (all.into_iter().map(|(_, row)| row).collect(), next)
    }
}

/// A place in the order of submission. Opaque; stays valid while tasks come and go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Cursor(pub(crate) u64);

/// As the text that is shown, which is checked when it is read.
impl Serialize for Cursor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Cursor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{:x}", self.0)
    }
}

impl FromStr for Cursor {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let digits = text.strip_prefix('c').filter(|digits| !digits.starts_with('+'));
        let place = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        place
            .filter(|place| i64::try_from(*place).is_ok())
            .map(Self)
            .ok_or_else(|| Invalid::new("cursor", text, "the next cursor of an earlier page"))
    }
}

/// One page of a listing.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Listing {
    /// The tasks, without payloads and results.
    pub tasks: Vec<Task>,
    /// Where to go on. A page may be short, even empty, and still have one: a page looks at a bounded
    /// number of rows.
    pub next: Option<Cursor>,
}

/// One page of what operators did.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AuditListing {
    /// Newest first, unless the page says otherwise.
    pub entries: Vec<AuditEntry>,
    /// Where to go on.
    pub next: Option<Cursor>,
}

/// What has happened since a store was opened, as far as anyone may be waiting for it. Only differences mean
/// anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Rings {
    /// Something became claimable.
    pub claimable: u64,
    /// Something waits for a moment that was not waited for before.
    pub timed: u64,
    /// Something became final.
    pub settled: u64,
    /// Something was taken from its holder.
    pub revoked: u64,
}

impl Rings {
    /// What two changes ring together.
    #[cfg(feature = "postgres")]
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            claimable: self.claimable + other.claimable,
            timed: self.timed + other.timed,
            settled: self.settled + other.settled,
            revoked: self.revoked + other.revoked,
        }
    }

    /// For each bell the later of two.
    #[cfg(feature = "remote")]
    pub(crate) fn latest(self, other: Self) -> Self {
        Self {
            claimable: self.claimable.max(other.claimable),
            timed: self.timed.max(other.timed),
            settled: self.settled.max(other.settled),
            revoked: self.revoked.max(other.revoked),
        }
    }

    /// What has rung elsewhere from `before` to `after`. Says whether that is anything.
    #[cfg(feature = "remote")]
    pub(crate) fn add(&mut self, before: Self, after: Self) -> bool {
        let was = *self;
        self.claimable = self.claimable.wrapping_add(after.claimable.saturating_sub(before.claimable));
        self.timed = self.timed.wrapping_add(after.timed.saturating_sub(before.timed));
        self.settled = self.settled.wrapping_add(after.settled.saturating_sub(before.settled));
        self.revoked = self.revoked.wrapping_add(after.revoked.saturating_sub(before.revoked));
        *self != was
    }

    /// Every bell, for what cannot be told apart.
    #[cfg(any(feature = "postgres", feature = "sqlite", feature = "remote"))]
    pub(crate) fn ring_all(&mut self) {
        let Self { claimable, timed, settled, revoked } = self;
        [claimable, timed, settled, revoked].into_iter().for_each(|bell| *bell += 1);
    }

    /// The bells for a task that went from one status to another. Says whether it has become claimable.
    pub(crate) fn note(&mut self, task: &Task, after: &Status, by_its_holder: bool) -> bool {
        let before = &task.status;
        let entered = |is: fn(State) -> bool| u64::from(is(after.state) && !is(before.state));
        // One that has to wait for a slot rings when it is given one.
        let parked = task.spec.lane.is_some() && !after.slot;
        let opened = if parked { 0 } else { entered(|state| state == State::Pending) };
        self.claimable += opened;
        self.timed += u64::from(after.due_at.is_some() && after.due_at != before.due_at);
        self.settled += entered(State::is_final);
        self.revoked += u64::from(before.state.is_held() && !after.state.is_held() && !by_its_holder);
        opened > 0
    }
}

/// What one look of the reconcile chore found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Reconciled {
    /// What was wrong and has been put right. Always 0, unless something else than Windlass wrote to the
    /// store.
    pub repaired: u64,
    /// Where to go on; absent at the end.
    pub next: Option<String>,
}

/// Where a look of the reconcile chore begins: at the lanes, and when they are done, at the workflows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Look {
    /// After this lane.
    Lanes(Option<String>),
    /// After this workflow.
    Workflows(Option<WorkflowId>),
}

impl Look {
    /// From the end of an earlier look.
    pub(crate) fn after(text: Option<&str>) -> Self {
        match text.map(|text| text.split_once(' ').unwrap_or((text, ""))) {
            Some(("lane", lane)) => Self::Lanes(Some(lane.into())),
            Some(("workflow", id)) => Self::Workflows(id.parse().ok()),
            _ => Self::Lanes(None),
        }
    }

    /// The end of a look at lanes.
    pub(crate) fn next_lane(last: Option<&str>) -> String {
        last.map_or_else(|| "workflow ".into(), |lane| format!("lane {lane}"))
    }

    /// The end of a look at a workflow.
    pub(crate) fn next_workflow(last: WorkflowId) -> String {
        format!("workflow {last}")
    }
}

/// How many tasks of one sort there are.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Count {
    /// Their namespace.
    pub namespace: Name,
    /// Their queue.
    pub queue: Name,
    /// Their kind.
    pub kind: Name,
    /// Whether they are steps of workflows.
    pub is_step: bool,
    /// Their state.
    pub state: State,
    /// How many; never 0.
    pub tasks: u64,
}
