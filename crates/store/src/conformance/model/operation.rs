//! One thing that is done to both stores, as data: it can be shown, and done twice with the same meaning.

use std::fmt;
use std::time::Duration;

use windlass_core::{
    By, Command, Definition, Entity, Firing, Leadership, Lease, Name, NewSchedule, NewTask, NewWorker,
    NewWorkflow, Rejected, Retention, Schedule, Steering, TaskId, Term, Timestamp, Worker, WorkerId,
    Workflow, WorkflowId,
};

use crate::{
    Defined, Due, Error, Pulse, Receipt, Reconciled, Result, Started, Store, Submitted, Turn, Turned,
};

/// A call of a store, or something that happens to the world around it.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    Submit(Vec<NewTask>),
    Turn(Turn),
    /// What a leader does: ask what is due, then carry it out in its term.
    Chores {
        limit: usize,
        term: Option<Term>,
    },
    Register(NewWorker),
    Heartbeat(WorkerId, Vec<(TaskId, Lease)>),
    Deregister(WorkerId),
    Campaign(WorkerId, Duration),
    Resign(WorkerId, Term),
    Pause(Name, Name, bool),
    SetEntity(Name, Entity, bool),
    SetSchedule(Box<NewSchedule>),
    RemoveSchedule(Name, Name),
    Fire(Firing, Option<Term>),
    Define(Name, Box<Definition>),
    Start(Box<NewWorkflow>),
    Steer(WorkflowId, Steering, By),
    Reconcile(Option<String>, usize),
    Prune(Retention, usize),
    /// The clock is set, forward or back.
    Clock(Timestamp),
    /// The process dies and another one opens the data.
    Crash,
}

/// What a store answered.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Answer {
    Submitted(Result<Vec<Submitted>>),
    Turned(Result<Turned>),
    Chores(Result<Due>, Result<Turned>),
    Registered(Result<Worker>),
    Pulse(Result<Pulse>),
    Campaigned(Result<Option<Leadership>>),
    Changed(Result<bool>),
    Scheduled(Result<Box<Schedule>>),
    Defined(Result<Defined>),
    Started(Result<Started>),
    Steered(Result<Box<Workflow>>),
    Reconciled(Result<Reconciled>),
    Pruned(Result<usize>),
    Done(Result<()>),
}

impl Operation {
    /// Does it to `store`. What happens around the stores is not done here.
    pub(super) async fn run(&self, store: &dyn Store) -> Answer {
        match self.clone() {
            Self::Submit(tasks) => Answer::Submitted(store.submit(tasks).await),
            Self::Turn(turn) => Answer::Turned(store.turn(turn).await),
            Self::Chores { limit, term } => {
                let due = store.due(limit).await;
                let commands = due.as_ref().map_or_else(|_| Vec::new(), |due| due.commands.clone());
                Answer::Chores(due, store.turn(Turn { commands, claim: None, term }).await)
            }
            Self::Register(worker) => Answer::Registered(store.register(worker).await),
            Self::Heartbeat(worker, held) => Answer::Pulse(store.heartbeat(worker.clone(), held).await),
            Self::Deregister(worker) => Answer::Done(store.deregister(worker.clone()).await),
            Self::Campaign(candidate, lease) => {
                Answer::Campaigned(store.campaign(candidate.clone(), lease).await)
            }
            Self::Resign(candidate, term) => Answer::Done(store.resign(candidate.clone(), term).await),
            Self::Pause(namespace, queue, paused) => {
                Answer::Done(store.pause(namespace.clone(), queue.clone(), paused).await)
            }
            Self::SetEntity(namespace, entity, known) => {
                Answer::Changed(store.set_entity(namespace.clone(), entity.clone(), known).await)
            }
            Self::SetSchedule(schedule) => {
                Answer::Scheduled(store.set_schedule(*schedule).await.map(Box::new))
            }
            Self::RemoveSchedule(namespace, name) => {
                Answer::Changed(store.remove_schedule(namespace.clone(), name.clone()).await)
            }
            Self::Fire(firing, term) => Answer::Submitted(store.fire(firing, term).await),
            Self::Define(namespace, definition) => {
                Answer::Defined(store.define(namespace.clone(), *definition).await)
            }
            Self::Start(new) => Answer::Started(store.start(*new).await),
            Self::Steer(id, steering, by) => {
                Answer::Steered(store.steer(id, steering, by).await.map(Box::new))
            }
            Self::Reconcile(after, limit) => Answer::Reconciled(store.reconcile(after, limit).await),
            Self::Prune(retention, limit) => Answer::Pruned(store.prune(retention.clone(), limit).await),
            Self::Clock(_) | Self::Crash => Answer::Done(Ok(())),
        }
    }

    /// Whether it may have changed rows that neither it nor its answer names.
    pub(super) fn is_sweeping(&self, answer: &Answer) -> bool {
        matches!((self, answer), (Self::Crash, _) | (_, Answer::Pruned(Ok(1..))))
    }

    /// How many commands it stands for: a task submitted, a command or claim of a turn, or one for any other
    /// call and for one that was refused as a whole.
    pub(super) fn commands(&self, answer: &Answer) -> usize {
        match (self, answer) {
            (Self::Submit(tasks) | Self::Fire(Firing { tasks, .. }, _), Answer::Submitted(Ok(_))) => {
                tasks.len().max(1)
            }
            (Self::Turn(turn), Answer::Turned(Ok(_))) => {
                (turn.commands.len() + usize::from(turn.claim.is_some())).max(1)
            }
            (Self::Chores { .. }, Answer::Chores(Ok(due), _)) => due.commands.len().max(1),
            _ => 1,
        }
    }

    /// The tasks that it and its answer name.
    pub(super) fn touched(&self, answer: &Answer) -> Vec<TaskId> {
        let mut ids: Vec<TaskId> = match (self, answer) {
            (Self::Submit(tasks) | Self::Fire(Firing { tasks, .. }, _), Answer::Submitted(submitted)) => {
                let found = submitted.iter().flatten().map(|one| one.id);
                tasks.iter().map(|task| task.id).chain(found).collect()
            }
            (Self::Turn(turn), Answer::Turned(turned)) => {
                let claimed =
                    turned.iter().flat_map(|turned| turned.claimed.iter().flatten()).map(|one| one.task.id);
                turn.commands.iter().map(Command::task).chain(claimed).collect()
            }
            (_, Answer::Chores(Ok(due), _)) => due.commands.iter().map(Command::task).collect(),
            (Self::Heartbeat(_, held), _) => held.iter().map(|(id, _)| *id).collect(),
            (Self::Start(new), _) => {
                new.parent.iter().map(|token| token.task).chain([new.id.step(0)]).collect()
            }
            (Self::Steer(id, ..), Answer::Steered(Ok(workflow))) => {
                workflow.parent.into_iter().chain([id.step(0)]).collect()
            }
            _ => Vec::new(),
        };
        ids.sort_unstable();
        ids.dedup();
        ids.truncate(50);
        ids
    }
}

impl Answer {
    /// What the answer says, in the stable words for states and refusals: for counting what a sequence met.
    pub(super) fn words(&self) -> Vec<&'static str> {
        fn word<T>(result: &Result<T>) -> &'static str {
            result.as_ref().map_or_else(Error::code, |_| "ok")
        }
        match self {
            Self::Submitted(Ok(submitted)) => {
                submitted.iter().map(|one| if one.created { one.state.word() } else { "existing" }).collect()
            }
            Self::Turned(Ok(turned)) | Self::Chores(_, Ok(turned)) => {
                let receipt = |receipt: &Result<Receipt, Rejected>| match receipt {
                    Ok(Receipt { changed: true, state, .. }) => state.word(),
                    Ok(_) => "done before",
                    Err(Rejected::LeaseLost { state, .. }) if state.is_held() => "lost to another holder",
                    Err(rejected) => rejected.code(),
                };
                let claimed = turned.claimed.iter().flatten().map(|claimed| match claimed.details {
                    Some(_) => "claimed with details",
                    None => "claimed from a queue",
                });
                let slots = match self {
                    Self::Chores(Ok(due), _) => due.schedules.len(),
                    _ => 0,
                };
                let slots = std::iter::repeat_n("a slot has come", slots);
                turned.receipts.iter().map(receipt).chain(claimed).chain(slots).collect()
            }
            Self::Submitted(Err(Error::InBatch { rejected, .. })) => {
                vec!["refused with its batch", rejected.code()]
            }
            Self::Pulse(Ok(pulse)) if !pulse.lost.is_empty() => vec!["told of a loss"],
            Self::Pulse(Ok(pulse)) if !pulse.cancelled.is_empty() => vec!["told of a cancel"],
            Self::Campaigned(Ok(None)) => vec!["another leads"],
            Self::Pruned(Ok(1..)) => vec!["pruned"],
            Self::Defined(Ok(defined)) => vec![if defined.created { "defined" } else { "defined before" }],
            Self::Started(Ok(started)) => {
                vec![if started.created { "started" } else { "started before" }, started.state.word()]
            }
            Self::Steered(Ok(workflow)) => vec!["steered", workflow.state.word()],
            Self::Defined(result) => vec![word(result)],
            Self::Started(result) => vec![word(result)],
            Self::Steered(result) => vec![word(result)],
            Self::Submitted(result) => vec![word(result)],
            Self::Turned(result) | Self::Chores(_, result) => vec![word(result)],
            Self::Registered(result) => vec![word(result)],
            Self::Pulse(result) => vec![word(result)],
            Self::Campaigned(result) => vec![word(result)],
            Self::Changed(result) => vec![word(result)],
            Self::Scheduled(result) => vec![word(result)],
            Self::Reconciled(result) => vec![word(result)],
            Self::Pruned(result) => vec![word(result)],
            Self::Done(result) => vec![word(result)],
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Submit(tasks) if tasks.len() <= 5 => {
                let tasks: Vec<_> = tasks.iter().map(told).collect();
                write!(f, "submit [{}]", tasks.join("; "))
            }
            Self::Submit(tasks) => write!(f, "submit {} tasks", tasks.len()),
            Self::Turn(turn) if turn.commands.len() > 5 => {
                write!(f, "turn of {} commands, claim {:?}", turn.commands.len(), turn.claim)
            }
            Self::Turn(Turn { commands, claim, term }) => {
                write!(f, "turn {commands:?}")?;
                claim.iter().try_for_each(|claim| write!(f, ", then {claim:?}"))?;
                term.iter().try_for_each(|term| write!(f, ", in term {term}"))
            }
            Self::Clock(to) => write!(f, "clock is set to {to}"),
            other => write!(f, "{other:?}"),
        }
    }
}

/// A new task by what differs from the defaults.
fn told(task: &NewTask) -> String {
    let plain = NewTask::new(task.id, task.kind.clone(), task.payload.clone());
    let mut told = format!("{} {} {}", task.id, task.kind, task.payload);
    macro_rules! tell {
        ($($field:ident),+) => {$(
            if task.$field != plain.$field {
                told += &format!(", {} {:?}", stringify!($field), task.$field);
            }
        )+};
    }
    tell![namespace, queue, priority, ageing, key, on_conflict, lane, require_entity, start];
    tell![timeout, tags, max_attempts, retry, actor];
    told
}
