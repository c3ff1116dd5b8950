//! Rules that are checked at the very moment at which something is done in the store, in the order in which
//! it is done, whatever the clocks say. What comes here are requests with the store's own answers, before any
//! of them is lost.

use std::collections::BTreeMap;

use windlass::{
    Command, Lease, NewTask, Outcome, Receipt, State, Submitted, Task, TaskId, Term, Token, WorkerId,
};

use super::book::short;

/// What was seen of one task.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// Its lane and limit, as the submitter wanted it.
    lane: Option<(String, u32)>,
    max_attempts: Option<u32>,
    lease: Lease,
    holder: Option<WorkerId>,
    /// How its present life ended.
    over: Option<State>,
    /// Whether it waits for a moment, as far as the store has told.
    is_timed: bool,
}

/// One run of a handler.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// How it ended; absent while it runs, or if it was dropped.
    pub(crate) ended: Option<&'static str>,
    /// What it returned, if it completed.
    pub(crate) result: Option<String>,
}

/// The word for an outcome.
pub(crate) fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Completed { .. } => "completed",
        Outcome::Failed { .. } => "failed",
        Outcome::Snoozed { .. } => "snoozed",
        Outcome::Cancelled { .. } => "cancelled",
        Outcome::Skipped { .. } => "skipped",
        Outcome::Expanded { .. } => "expanded",
    }
}

/// All that was seen.
#[derive(Debug, Default)]
pub(crate) struct Mirror {
    tasks: BTreeMap<TaskId, Seen>,
    /// Who was told to lead in each term.
    terms: BTreeMap<Term, WorkerId>,
    /// Who claimed what.
    claims: BTreeMap<(TaskId, Lease), WorkerId>,
    /// Handlers that were started.
    pub(crate) runs: BTreeMap<(TaskId, Lease), Run>,
    /// Tasks of schedules by slot.
    slots: BTreeMap<String, TaskId>,
}

type Wrong = Option<String>;

impl Mirror {
    /// A submit was carried out.
    pub(crate) fn submitted(&mut self, tasks: &[NewTask], answers: &[Submitted]) {
        for (task, answer) in tasks.iter().zip(answers).filter(|(_, answer)| answer.created) {
            let lane = task.lane.as_ref().map(|lane| (lane.key().to_owned(), lane.limit()));
            let max_attempts = task.max_attempts.map(|max| max.get());
            self.tasks.insert(
                answer.id,
                Seen { lane, max_attempts, is_timed: answer.state.is_timed(), ..Seen::default() },
            );
        }
    }

    /// I14: a schedule has fired; each slot has one task.
    pub(crate) fn fired(&mut self, tasks: &[NewTask], answers: &[Submitted]) -> Wrong {
        self.submitted(tasks, answers);
        for (task, answer) in tasks.iter().zip(answers).filter(|(_, answer)| answer.created) {
            let Some(key) = &task.key else { continue };
            if let Some(first) = self.slots.insert(key.clone(), answer.id)
                && self.tasks.contains_key(&first)
            {
                return Some(format!("I14: {key} has two tasks, {} and {}", short(first), short(answer.id)));
            }
        }
        None
    }

    /// Whether a task waited for a moment and nobody promoted it since: a claim may take it all the same.
    pub(crate) fn is_timed(&self, task: TaskId) -> bool {
        self.tasks.get(&task).is_some_and(|seen| seen.is_timed)
    }

    /// I4, I6, I7, I13, I19: a worker was given a task.
    pub(crate) fn claimed(&mut self, worker: &WorkerId, task: &Task) -> Wrong {
        let (name, lease, attempt) = (short(task.id), task.status.lease, task.status.attempt);
        let Some(seen) = self.tasks.get(&task.id) else {
            return Some(format!("I2: {name} was handed out and never submitted"));
        };
        if let Some(holder) = &seen.holder {
            return Some(format!("I4: {name} was given to {worker} while {holder} had it"));
        }
        if lease <= seen.lease {
            return Some(format!("I5: lease {lease} of {name} was given out after lease {}", seen.lease));
        }
        if let Some(state) = seen.over {
            return Some(format!("I6, I19: {name} was handed out when it was {state}"));
        }
        if seen.max_attempts.is_some_and(|max| attempt > max) {
            return Some(format!("I13: attempt {attempt} of {name} was begun"));
        }
        if let Some((key, limit)) = &seen.lane {
            let same = |other: &&Seen| other.lane.as_ref().is_some_and(|(other, _)| other == key);
            let held = self.tasks.values().filter(same).filter(|other| other.holder.is_some()).count();
            if held >= usize::try_from(*limit).unwrap() {
                return Some(format!("I7: {name} is number {} in lane {key} of {limit}", held + 1));
            }
        }
        self.tasks.entry(task.id).and_modify(|seen| {
            (seen.lease, seen.holder, seen.is_timed) = (lease, Some(worker.clone()), false);
        });
        self.claims.insert((task.id, lease), worker.clone());
        None
    }

    /// I3, I5: a command was accepted.
    pub(crate) fn accepted(&mut self, command: &Command, receipt: &Receipt) -> Wrong {
        if !receipt.changed {
            return None;
        }
        let name = short(receipt.task);
        if let Command::Delete { task } = command {
            self.tasks.remove(task);
            self.slots.retain(|_, known| known != task);
            return None;
        }
        let Some(seen) = self.tasks.get_mut(&receipt.task) else {
            return Some(format!("I2: {command:?} was accepted and {name} never submitted"));
        };
        let before = seen.clone();
        seen.is_timed = receipt.state.is_timed();
        seen.holder = seen.holder.take().filter(|_| receipt.state.is_held());
        if matches!(command, Command::Retry { .. }) {
            seen.over = None;
        }
        if receipt.state.is_final() {
            seen.over = Some(receipt.state);
        }
        let by_operator = matches!(command, Command::Retry { .. } | Command::Resolve { .. });
        if let Some(over) = before.over.filter(|_| !by_operator) {
            return Some(format!("I3: {name} was {over}, and {command:?} was accepted"));
        }
        match command {
            Command::Start { token, .. } | Command::Report { token, .. } | Command::Release { token, .. } => {
                stale(&before, token)
            }
            Command::Finish { token, outcome, .. } => {
                stale(&before, token).or_else(|| self.untrue(token, outcome))
            }
            _ => None,
        }
    }

    /// A worker says how a handler ended: that must be how it ended.
    fn untrue(&self, token: &Token, outcome: &Outcome) -> Wrong {
        let (name, said) = (format!("{}.{}", short(token.task), token.lease), word(outcome));
        let timed_out =
            matches!(outcome, Outcome::Failed { error, .. } if error.starts_with("timed out after"));
        match self.runs.get(&(token.task, token.lease)) {
            None => Some(format!("{name} was reported {said}, and its handler never ran")),
            Some(_) if timed_out => None,
            Some(run) if run.ended == Some(said) => None,
            Some(run) => {
                Some(format!("{name} was reported {said}, and its handler ended as {:?}", run.ended))
            }
        }
    }

    /// I4: a handler begins.
    pub(crate) fn began(&mut self, who: &str, task: TaskId, lease: Lease) -> Wrong {
        let name = format!("{}.{lease}", short(task));
        let run = Run { ended: None, result: None };
        if self.runs.insert((task, lease), run).is_some() {
            return Some(format!("I4: the handler of {name} was started twice"));
        }
        match self.claims.get(&(task, lease)) {
            Some(worker) if worker.as_str() == who => None,
            other => Some(format!("I4: {who} started {name}, which was claimed by {other:?}")),
        }
    }

    /// A handler ends.
    pub(crate) fn ended(&mut self, task: TaskId, lease: Lease, ended: &'static str, result: Option<String>) {
        if let Some(run) = self.runs.get_mut(&(task, lease)) {
            (run.ended, run.result) = (Some(ended), result);
        }
    }

    /// I15: somebody was told to lead.
    pub(crate) fn leads(&mut self, who: &WorkerId, term: Term) -> Wrong {
        let newest = self.terms.last_key_value().map(|(term, _)| *term);
        match self.terms.get(&term) {
            Some(holder) if holder == who => None,
            Some(holder) => Some(format!("I15: {who} and {holder} were both told to lead in term {term}")),
            None if newest.is_some_and(|newest| newest > term) => {
                Some(format!("I15: term {term} was given out after term {newest:?}"))
            }
            None => {
                self.terms.insert(term, who.clone());
                None
            }
        }
    }

    /// How many terms there were, and in how many of them the leader was another one than before.
    pub(crate) fn elections(&self) -> (u64, u64) {
        let leaders: Vec<_> = self.terms.values().collect();
        let changes = leaders.windows(2).filter(|pair| pair[0] != pair[1]).count();
        (u64::try_from(leaders.len()).unwrap(), u64::try_from(changes).unwrap())
    }

    /// I15: a leader's write was accepted.
    pub(crate) fn led(&self, who: &str, term: Option<Term>) -> Wrong {
        let (term, newest) = (term?, self.terms.last_key_value());
        match newest {
            Some((newest, holder)) if *newest == term && holder.as_str() == who => None,
            _ => Some(format!("I15: {who} wrote as the leader of term {term}; the last one is {newest:?}")),
        }
    }

    /// What a worker holds.
    pub(crate) fn held_by(&self, worker: &str) -> Vec<TaskId> {
        let held = self.tasks.iter().filter(|(_, seen)| {
            seen.holder.as_ref().is_some_and(|holder| holder.as_str() == worker) && seen.over.is_none()
        });
        held.map(|(id, _)| *id).collect()
    }

    /// Who holds a task.
    pub(crate) fn holder(&self, task: TaskId) -> Option<&WorkerId> {
        self.tasks.get(&task)?.holder.as_ref()
    }
}

/// I5: only the holder of the present lease is listened to.
fn stale(seen: &Seen, token: &Token) -> Wrong {
    let Token { task, lease, worker } = token;
    (seen.lease != *lease || seen.holder.as_ref() != Some(worker)).then(|| {
        let name = short(*task);
        format!(
            "I5: {worker} was believed about lease {lease} of {name}, whose holder is {:?} with lease {}",
            seen.holder, seen.lease
        )
    })
}
