//! A task on its way into the store.

use std::fmt::Display;
use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use windlass_core::{
    Ageing, Invalid, Json, Lane, Name, NewTask, OnConflict, RetryPolicy, Start, Timestamp, TraceParent,
};
use windlass_store::{Result, Submitted};

use crate::client::Client;
use crate::ids::task_id;

/// A task to submit. Set what differs from the defaults, then `.await` it, or [`Submit::build`] it for
/// [`Client::submit_all`]. A value that cannot be accepted is told then.
#[derive(Debug)]
#[must_use = "a task is submitted by awaiting this"]
pub struct Submit {
    client: Client,
    task: Result<NewTask, Invalid>,
}

impl Submit {
    pub(crate) fn new(client: Client, kind: &str, payload: Result<Json, Invalid>) -> Self {
        let task = Name::kind(kind).and_then(|kind| {
            let namespace = client.namespace.clone();
            Ok(NewTask { namespace, ..NewTask::new(task_id(), kind, payload?) })
        });
        Self { client, task }
    }

    fn set(mut self, change: impl FnOnce(&mut NewTask) -> Result<(), Invalid>) -> Self {
        self.task = self.task.and_then(|mut task| change(&mut task).map(|()| task));
        self
    }

    fn with(self, change: impl FnOnce(&mut NewTask)) -> Self {
        self.set(|task| {
            change(task);
            Ok(())
        })
    }

    /// The line of tasks it joins; `default` by default.
    pub fn queue(self, queue: &str) -> Self {
        self.set(|task| Name::queue(queue).map(|queue| task.queue = queue))
    }

    /// Higher first; 0 by default.
    pub fn priority(self, priority: i32) -> Self {
        self.with(|task| task.priority = priority)
    }

    /// How its place improves with time; not at all by default.
    pub fn ageing(self, ageing: Ageing) -> Self {
        self.with(|task| task.ageing = ageing)
    }

    /// Idempotency key: while a task of this kind with this key exists, submitting it again answers with the
    /// first.
    pub fn key(self, key: impl Into<String>) -> Self {
        self.with(|task| task.key = Some(key.into()))
    }

    /// Submitting a key again is refused instead.
    pub fn reject_duplicate(self) -> Self {
        self.with(|task| task.on_conflict = OnConflict::Reject)
    }

    /// The entity it acts on, written `type:id`: one task of an entity at a time, in submit order.
    pub fn entity(self, entity: &str) -> Self {
        self.set(|task| entity.parse().map(|entity| task.lane = Some(Lane::of(&entity))))
    }

    /// The entity must be registered.
    pub fn require_entity(self) -> Self {
        self.with(|task| task.require_entity = true)
    }

    /// A concurrency key with a limit.
    pub fn lane(self, lane: Lane) -> Self {
        self.with(|task| task.lane = Some(lane))
    }

    /// Not before this long from now.
    pub fn delay(self, delay: Duration) -> Self {
        self.with(|task| task.start = Start::After(delay))
    }

    /// Not before this moment.
    pub fn run_at(self, moment: Timestamp) -> Self {
        self.with(|task| task.start = Start::At(moment))
    }

    /// How long one attempt may take; unlimited by default.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.with(|task| task.timeout = Some(timeout))
    }

    /// Attempts in all; 3 by default, `None` for no limit.
    pub fn max_attempts(self, attempts: impl Into<Option<u32>>) -> Self {
        let attempts = windlass_core::attempts(attempts.into());
        self.set(|task| attempts.map(|attempts| task.max_attempts = attempts))
    }

    /// When failed attempts are tried again.
    pub fn retry(self, policy: RetryPolicy) -> Self {
        self.with(|task| task.retry = policy)
    }

    /// A word to find it by; may be given several times.
    pub fn tag(self, tag: impl Display) -> Self {
        self.with(|task| task.tags.push(tag.to_string()))
    }

    /// What it is part of, for who follows requests through many programs: the trace of a request, say. Its
    /// handler is given it. Unless this is said, it is part of the span that submits it if the program has a
    /// [tracer](crate::trace), and of nothing otherwise.
    pub fn traceparent(self, traceparent: TraceParent) -> Self {
        self.with(|task| task.traceparent = Some(traceparent))
    }

    /// Who submits it, for the history.
    pub fn actor(self, actor: impl Display) -> Self {
        self.with(|task| task.actor = Some(actor.to_string()))
    }

    /// The task, for [`Client::submit_all`].
    pub fn build(self) -> Result<NewTask> {
        let task = self.task?;
        task.check()?;
        Ok(task)
    }
}

impl IntoFuture for Submit {
    type Output = Result<Submitted>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let client = self.client.clone();
            let mut submitted = client.submit_all(vec![self.build()?]).await?;
            Ok(submitted.remove(0))
        })
    }
}
