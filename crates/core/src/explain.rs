//! Why a task is not running, as data. `windlass why` turns it into sentences.

use serde::{Deserialize, Serialize};

use crate::id::{TaskId, WorkerId};
use crate::state::State;
use crate::task::Task;
use crate::time::Timestamp;

/// What a store gathers about one task so that [`explain`] can answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Facts {
    /// The task.
    pub task: Task,
    /// Whether its queue is paused.
    pub paused: bool,
    /// The tasks that hold slots of its lane, other than itself, in submit order.
    pub lane_holders: Vec<LaneHolder>,
    /// Live workers that take its queue and kind.
    pub live_workers: u32,
    /// Until when its holder is alive; `None` if there is no such worker.
    pub alive_until: Option<Timestamp>,
    /// The store's clock.
    pub now: Timestamp,
}

/// A task that holds a slot of a lane.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LaneHolder {
    /// The task.
    pub task: TaskId,
    /// Where it is.
    pub state: State,
    /// Who works on it, if anyone.
    pub worker: Option<WorkerId>,
}

impl LaneHolder {
    /// From a task that holds a slot.
    #[must_use]
    pub fn of(task: &Task) -> Self {
        Self { task: task.id, state: task.status.state, worker: task.status.worker.clone() }
    }
}

/// The one thing that keeps a task from running, most decisive first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Why {
    /// It is running.
    Running,
    /// A worker has it and is about to start.
    AboutToStart,
    /// Its worker fell silent; it will be given to another or end in dead letters.
    LeaseExpired,
    /// It is over.
    Final,
    /// It waits for other tasks.
    WaitingForParents,
    /// It was delayed or snoozed.
    NotDue,
    /// It failed and the backoff is running.
    Backoff,
    /// Its moment has come; the leader is about to make it claimable.
    AboutToBeDue,
    /// Its queue is paused.
    QueuePaused,
    /// All slots of its lane are taken.
    LaneFull,
    /// No live worker takes its queue and kind.
    NoWorker,
    /// Nothing stands in its way but the tasks before it.
    InQueue,
}

impl Why {
    /// A stable word for programs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::AboutToStart => "about_to_start",
            Self::LeaseExpired => "lease_expired",
            Self::Final => "final",
            Self::WaitingForParents => "waiting_for_parents",
            Self::NotDue => "not_due",
            Self::Backoff => "backoff",
            Self::AboutToBeDue => "about_to_be_due",
            Self::QueuePaused => "queue_paused",
            Self::LaneFull => "lane_full",
            Self::NoWorker => "no_worker",
            Self::InQueue => "in_queue",
        }
    }
}

/// Something that stands in the way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Blocker {
    /// A task that holds a slot.
    Task(LaneHolder),
    /// A paused queue.
    Queue(String),
    /// A worker that holds the task itself.
    Worker(WorkerId),
    /// A kind that no live worker takes.
    Kind(String),
}

/// The answer to *why is it not running*.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// The reason.
    pub why: Why,
    /// The reason in a sentence, with what to do about it.
    pub detail: String,
    /// When the next thing happens by itself, if that is known.
    pub next_change_at: Option<Timestamp>,
    /// What stands in the way.
    pub blockers: Vec<Blocker>,
}

/// Answers from the facts.
#[must_use]
pub fn explain(facts: &Facts) -> Explanation {
    let status = &facts.task.status;
    match status.state {
        State::Waiting => plain(Why::WaitingForParents, "it waits for its dependencies".into()),
        State::Scheduled => timed(facts, Why::NotDue, "it is scheduled"),
        State::WaitingForRetry => timed(facts, Why::Backoff, "its last attempt failed and the backoff runs"),
        State::Pending => pending(facts),
        State::Claimed | State::Running => held(facts),
        state => {
            let when = status.finished_at.map_or_else(String::new, |at| format!(" since {at}"));
            plain(Why::Final, format!("it is {state}{when}"))
        }
    }
}

fn plain(why: Why, detail: String) -> Explanation {
    Explanation { why, detail, next_change_at: None, blockers: Vec::new() }
}

fn timed(facts: &Facts, why: Why, what: &str) -> Explanation {
    let due = facts.task.status.due_at.unwrap_or(facts.now);
    let (why, detail) = if due > facts.now {
        (why, format!("{what} until {due}"))
    } else {
        (Why::AboutToBeDue, format!("{what}, but that is over since {due}; a leader will make it claimable"))
    };
    Explanation { next_change_at: Some(due), ..plain(why, detail) }
}

fn pending(facts: &Facts) -> Explanation {
    let spec = &facts.task.spec;
    if facts.paused {
        let detail = format!("its queue {:?} is paused; resume the queue to let it run", &*spec.queue);
        let blockers = vec![Blocker::Queue(spec.queue.to_string())];
        return Explanation { blockers, ..plain(Why::QueuePaused, detail) };
    }
    if let Some(lane) = spec.lane.as_ref().filter(|_| facts.task.is_parked()) {
        let (limit, key) = (lane.limit(), lane.key());
        let detail = format!("its lane {key:?} admits {limit} at a time and earlier tasks hold the slots");
        let blockers = facts.lane_holders.iter().cloned().map(Blocker::Task).collect();
        return Explanation { blockers, ..plain(Why::LaneFull, detail) };
    }
    if facts.live_workers == 0 {
        let detail = format!(
            "no live worker takes kind {:?} from queue {:?} of namespace {:?}; start one that does",
            &*spec.kind, &*spec.queue, &*spec.namespace
        );
        let blockers = vec![Blocker::Kind(spec.kind.to_string())];
        return Explanation { blockers, ..plain(Why::NoWorker, detail) };
    }
    let detail = format!(
        "it can be claimed; {} live worker(s) take its kind and are busy with tasks before it",
        facts.live_workers
    );
    plain(Why::InQueue, detail)
}

fn held(facts: &Facts) -> Explanation {
    let status = &facts.task.status;
    let holder = status.worker.as_ref().map_or("an unknown worker", |worker| worker.as_str());
    let blockers = status.worker.iter().cloned().map(Blocker::Worker).collect();
    let Some(until) = facts.alive_until.filter(|until| *until > facts.now) else {
        let detail = format!(
            "worker {holder} held it and fell silent; a leader will expire lease {} and {}",
            status.lease,
            if facts.task.is_exhausted() { "move it to dead letters" } else { "offer it to others" }
        );
        let next_change_at = Some(facts.now);
        return Explanation { why: Why::LeaseExpired, detail, next_change_at, blockers };
    };
    let next_change_at = Some(facts.task.deadline().map_or(until, |deadline| deadline.min(until)));
    let (why, detail) = match status.started_at {
        Some(at) => (Why::Running, format!("worker {holder} runs it since {at}")),
        None => (Why::AboutToStart, format!("worker {holder} claimed it and is about to start it")),
    };
    Explanation { why, detail, next_change_at, blockers }
}
