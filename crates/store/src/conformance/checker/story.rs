//! The log as the rules read it: operations with their ends, sorted by the task that they are about.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use windlass_core::{Lease, State, TaskId, Timestamp, WorkflowId};

use super::Violation;
use super::event::{Accepted, Answer, Asked, End, Ending, Event, Op, What};

/// All that was logged.
#[derive(Debug, Default)]
pub(super) struct Story<'e> {
    pub(super) tasks: BTreeMap<TaskId, Told<'e>>,
    pub(super) workflows: BTreeMap<WorkflowId, Begun<'e>>,
    /// The tasks that each key was answered with.
    pub(super) keys: BTreeMap<Key<'e>, BTreeSet<TaskId>>,
    /// When the last prune that may have removed something was over.
    pub(super) pruned_until: Option<Timestamp>,
    /// How many tasks were pruned; `None` if there is a prune of which that is not known.
    pub(super) pruned: Option<usize>,
    /// Where the log contradicts itself.
    pub(super) faults: Vec<Violation>,
}

/// Namespace, kind and idempotency key.
pub(super) type Key<'e> = (&'e str, &'e str, &'e str);

/// What was logged about one task.
#[derive(Debug, Default)]
pub(super) struct Told<'e> {
    /// Submits that were told that they created it, and what they had asked for.
    pub(super) created: Vec<(&'e str, &'e Asked)>,
    /// Submits that were told that it existed.
    pub(super) found: Vec<&'e str>,
    /// Whether a submit of it may have been done or not.
    pub(super) maybe_submitted: bool,
    /// A submit of it that was refused.
    pub(super) refused: Option<&'e str>,
    /// When it was first asked for by a submit that was not refused.
    pub(super) asked_at: Option<Timestamp>,
    /// Finishes with their ends.
    pub(super) finishes: Vec<Finish<'e>>,
    /// Handlers that were started.
    pub(super) handlers: Vec<Handler<'e>>,
    /// When workflows were asked for that the step is, and by whom.
    pub(super) nests: Vec<(Timestamp, &'e str)>,
    /// Acknowledged cancels: whether they changed anything.
    pub(super) cancels: Vec<bool>,
    /// Whether a delete of it was not refused.
    pub(super) deleted: bool,
}

/// What was logged about one workflow.
#[derive(Debug, Default)]
pub(super) struct Begun<'e> {
    /// Starts that were told that they created it.
    pub(super) created: Vec<&'e str>,
    /// Starts that were told that it existed.
    pub(super) found: Vec<&'e str>,
    /// Whether a start of it may have been done or not.
    pub(super) maybe: bool,
    /// When it was first asked for by a start that was not refused.
    pub(super) asked_at: Option<Timestamp>,
}

/// A finish of one lease.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finish<'e> {
    pub(super) who: &'e str,
    pub(super) lease: Lease,
    pub(super) ending: Ending,
    pub(super) end: FinishEnd,
    /// When it was asked for.
    pub(super) at: Timestamp,
}

/// What the worker was told about its finish.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FinishEnd {
    /// It was done now, and the task is in this state.
    Done(State),
    /// It had been done before.
    Repeated,
    Refused,
    Unknown,
}

/// A handler that was started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handler<'e> {
    pub(super) who: &'e str,
    pub(super) at: Timestamp,
    pub(super) lease: Lease,
    pub(super) attempt: u32,
    pub(super) entity: Option<&'e str>,
}

impl Told<'_> {
    /// Whether it may be there: a submit of it was acknowledged, or its end is unknown.
    pub(super) fn is_submitted(&self) -> bool {
        self.maybe_submitted || !self.created.is_empty() || !self.found.is_empty()
    }

    fn ask(&mut self, at: Timestamp) {
        self.asked_at = Some(self.asked_at.map_or(at, |first| first.min(at)));
    }
}

impl Begun<'_> {
    /// Whether it may be there.
    pub(super) fn is_started(&self) -> bool {
        self.maybe || !self.created.is_empty() || !self.found.is_empty()
    }
}

/// An operation with its end.
struct Operation<'e> {
    who: &'e str,
    op: &'e Op,
    invoked: Timestamp,
    /// Absent if it never came.
    ended: Option<(Timestamp, &'e End)>,
}

impl<'e> Story<'e> {
    pub(super) fn of(events: &'e [Event]) -> Self {
        let mut story = Self { pruned: Some(0), ..Self::default() };
        let operations = story.pair(events);
        for operation in &operations {
            story.tell(operation);
        }
        story.tell_handlers(events);
        story
    }

    /// Whether a task that is not there may have been removed on purpose.
    pub(super) fn may_be_pruned(&self, told: &Told<'_>) -> bool {
        self.is_before_prune(told.asked_at)
    }

    /// Whether what was asked for then may have been removed on purpose.
    pub(super) fn is_before_prune(&self, asked_at: Option<Timestamp>) -> bool {
        asked_at.is_some_and(|asked| self.pruned_until.is_some_and(|until| asked <= until))
    }

    /// Whether a task may be there because a workflow with it was started.
    pub(super) fn is_step(&self, task: TaskId) -> bool {
        self.workflows.get(&WorkflowId::of(task)).is_some_and(Begun::is_started)
    }

    fn fault(&mut self, who: &str, fault: String) {
        self.faults.push(Violation::BadLog { who: who.into(), fault });
    }

    /// Brings the two lines of each operation together.
    fn pair(&mut self, events: &'e [Event]) -> Vec<Operation<'e>> {
        let (mut operations, mut places) = (Vec::new(), HashMap::new());
        for Event { who, at, what } in events {
            if let What::Invoked { number, op } = what {
                let twice = places.insert((&**who, *number), operations.len()).is_some();
                if twice {
                    self.fault(who, format!("operation {number} was started twice"));
                }
                operations.push(Operation { who, op, invoked: *at, ended: None });
            }
        }
        for Event { who, at, what } in events {
            let What::Ended { number, end } = what else { continue };
            match places.get(&(&**who, *number)).map(|place| &mut operations[*place]) {
                Some(Operation { ended: ended @ None, .. }) => *ended = Some((*at, end)),
                Some(_) => self.fault(who, format!("operation {number} has ended twice")),
                None => self.fault(who, format!("operation {number} has ended without being started")),
            }
        }
        operations
    }

    fn tell(&mut self, operation: &Operation<'e>) {
        let Operation { who, op, .. } = *operation;
        let end = operation.ended.map_or(&End::Unknown, |(_, end)| end);
        match (op, end) {
            (Op::Submit(asked), End::Ok(Answer::Submitted(answers))) if asked.len() == answers.len() => {
                for (asked, answer) in asked.iter().zip(answers) {
                    self.accepted(operation, asked, *answer);
                }
            }
            (Op::Submit(asked), End::Unknown) => {
                for asked in asked {
                    let told = self.tasks.entry(asked.id).or_default();
                    told.maybe_submitted = true;
                    told.ask(operation.invoked);
                }
            }
            (Op::Submit(asked), End::Failed(_)) => {
                for asked in asked {
                    self.tasks.entry(asked.id).or_default().refused = Some(who);
                }
            }
            (
                Op::Start { workflow, parent },
                End::Ok(Answer::Started { .. }) | End::Failed(_) | End::Unknown,
            ) => {
                if let Some(parent) = parent {
                    self.tasks.entry(parent.task).or_default().nests.push((operation.invoked, who));
                }
                let id =
                    if let End::Ok(Answer::Started { workflow, .. }) = end { workflow } else { workflow };
                let begun = self.workflows.entry(*id).or_default();
                match end {
                    End::Ok(Answer::Started { created: true, .. }) => begun.created.push(who),
                    End::Ok(_) => begun.found.push(who),
                    End::Unknown => begun.maybe = true,
                    End::Failed(_) => return,
                }
                begun.asked_at =
                    Some(begun.asked_at.map_or(operation.invoked, |at| at.min(operation.invoked)));
            }
            (
                Op::Finish { task, lease, ending },
                End::Ok(Answer::Done { .. }) | End::Failed(_) | End::Unknown,
            ) => {
                let end = match end {
                    End::Ok(Answer::Done { changed: true, state }) => FinishEnd::Done(*state),
                    End::Ok(_) => FinishEnd::Repeated,
                    End::Failed(_) => FinishEnd::Refused,
                    End::Unknown => FinishEnd::Unknown,
                };
                let finish = Finish { who, lease: *lease, ending: *ending, end, at: operation.invoked };
                self.tasks.entry(*task).or_default().finishes.push(finish);
            }
            (Op::Cancel { task }, End::Ok(Answer::Done { changed, .. })) => {
                self.tasks.entry(*task).or_default().cancels.push(*changed);
            }
            (Op::Delete { task }, End::Ok(Answer::Done { .. }) | End::Unknown) => {
                self.tasks.entry(*task).or_default().deleted = true;
            }
            (Op::Prune, End::Ok(Answer::Pruned(pruned))) => {
                self.pruned = self.pruned.map(|before| before + pruned);
                self.pruned_until = self.pruned_until.max(operation.ended.map(|(at, _)| at));
            }
            (Op::Prune, End::Unknown) => {
                self.pruned = None;
                self.pruned_until = Some(Timestamp::MAX);
            }
            (Op::Cancel { .. }, End::Failed(_) | End::Unknown)
            | (Op::Delete { .. } | Op::Prune, End::Failed(_)) => {}
            (op, End::Ok(answer)) => self.fault(who, format!("{answer:?} is no answer to {op:?}")),
        }
    }

    fn accepted(&mut self, operation: &Operation<'e>, asked: &'e Asked, answer: Accepted) {
        let told = self.tasks.entry(answer.id).or_default();
        told.ask(operation.invoked);
        if answer.created {
            told.created.push((operation.who, asked));
        } else {
            told.found.push(operation.who);
        }
        if let Some(key) = &asked.key {
            self.keys.entry((&asked.namespace, &asked.kind, key)).or_default().insert(answer.id);
        }
    }

    fn tell_handlers(&mut self, events: &'e [Event]) {
        for Event { who, at, what } in events {
            if let What::HandlerStarted { task, lease, entity, attempt } = what {
                let (lease, attempt, entity) = (*lease, *attempt, entity.as_deref());
                let handler = Handler { who, at: *at, lease, attempt, entity };
                self.tasks.entry(*task).or_default().handlers.push(handler);
            }
        }
        for Event { who, what, .. } in events {
            if let What::HandlerEnded { task, lease } = what {
                let handlers = self.tasks.get(task).map_or(&[][..], |told| &told.handlers);
                if !handlers.iter().any(|handler| handler.lease == *lease) {
                    let fault =
                        format!("a handler of lease {lease} of task {task} has ended without being started");
                    self.fault(who, fault);
                }
            }
        }
    }
}
