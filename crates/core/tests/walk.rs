//! Every short life of a task, and every state against every command.
//!
//! The walk starts from a freshly submitted task and applies all commands, with good and bad tokens and with the
//! clock behind, still and ahead, breadth first, down to a depth; every row and every step on the way must keep
//! the promises of the design (I3 to I6, I9, I13, I19). The tables say, for each state and each command, what the
//! design and requirements 1.0, 1.1, 1.3 and 4.2 to 4.8 ask for: a new state, nothing, or a refusal by its code.
//!
//! Neither looks inside [`transition`]: the naive evaluator in `naive.rs` is the other oracle.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, missing_docs)]

use std::collections::{BTreeSet, HashSet};
use std::num::NonZeroU32;
use std::thread;
use std::time::Duration;

use windlass_core::{
    Ageing, Before, By, Changes, Command, Entry, Json, Lane, Lease, Name, NewTask, Outcome, Reason, Rejected,
    Start, State, Task, TaskChange, TaskId, Timestamp, Token, WorkerId, history, rank, transition,
};

/// Longer than every delay that occurs here, so that one such step of the clock makes anything due.
const LONG: Duration = Duration::from_secs(100);

/// A task together with the whole history that led to it.
#[derive(Clone, Debug)]
struct Life {
    task: Task,
    history: Vec<Entry>,
}

/// A command, and what surrounds it when it arrives.
#[derive(Clone, Debug)]
struct Move {
    command: Command,
    paused: bool,
    alive_until: Option<Timestamp>,
    now: Timestamp,
}

impl Move {
    fn new(command: Command, now: Timestamp) -> Self {
        Self { command, paused: false, alive_until: None, now }
    }
}

impl Life {
    /// A task with `max` attempts (none is no limit), and whatever else `change` asks for.
    fn submitted(max: Option<u32>, change: impl FnOnce(&mut NewTask)) -> Self {
        let id = TaskId::from_bytes([7; 16]);
        let mut new = NewTask::new(id, Name::kind("walk").unwrap(), Json::default());
        new.max_attempts = max.and_then(NonZeroU32::new);
        new.ageing = Ageing { per_hour: 10, per_retry: 500 };
        change(&mut new);
        let (task, _, entry) = new.admit(Timestamp::from_micros(1_800_000_000_000_000));
        Self { task, history: vec![entry] }
    }

    /// A step of a workflow whose parents are not done. No command leads here yet, so the row is written by hand.
    fn waiting(max: Option<u32>) -> Self {
        let mut life = Self::submitted(max, |_| ());
        life.task.status.state = State::Waiting;
        life.history[0].to = State::Waiting;
        life
    }

    /// A step that its workflow decided not to run, written by hand for the same reason.
    fn skipped(max: Option<u32>) -> Self {
        let mut life = Self::waiting(max);
        let at = life.task.status.updated_at;
        let (seq, from, reason) = (2, Some(State::Waiting), Reason::Cancelled);
        life.history.push(Entry { seq, from, to: State::Skipped, at, actor: None, reason, note: None });
        let status = &mut life.task.status;
        (status.state, status.entries, status.finished_at) = (State::Skipped, 2, Some(at));
        life
    }

    fn ask(&self, step: &Move) -> Result<Changes, Rejected> {
        let before = Before { task: &self.task, paused: step.paused, alive_until: step.alive_until };
        transition(&before, &step.command, step.now)
    }

    /// What a store would hold after `change`.
    fn after(&self, change: &TaskChange) -> Self {
        let mut life = self.clone();
        life.task.status = change.after.clone();
        life.history.extend(change.entries.iter().cloned());
        life
    }

    /// Applies a command that must be accepted and must change something.
    fn then(&self, command: Command) -> Self {
        self.then_at(command, self.task.status.updated_at)
    }

    fn then_at(&self, command: Command, now: Timestamp) -> Self {
        let changes = self.ask(&Move::new(command, now)).unwrap();
        self.after(&changes.tasks[0])
    }

    fn claim(&self, by: &str) -> Self {
        self.then(Command::Claim { task: self.task.id, worker: worker(by) })
    }

    fn finish(&self, outcome: Outcome) -> Self {
        self.then(Command::Finish { token: self.token(), outcome, started_at: None })
    }

    /// The token of the last claim, by worker `a`; of the claim to come if there was none.
    fn token(&self) -> Token {
        self.token_of(self.task.status.lease.max(1), "a")
    }

    fn token_of(&self, lease: Lease, by: &str) -> Token {
        Token { task: self.task.id, lease, worker: worker(by) }
    }
}

fn worker(id: &str) -> WorkerId {
    WorkerId::new(id).unwrap()
}

fn completed() -> Outcome {
    Outcome::Completed { result: Json::result("{\"n\":1}").unwrap() }
}

fn failed(retryable: bool) -> Outcome {
    Outcome::Failed { error: "broken".into(), retryable, retry_after: None }
}

fn snoozed() -> Outcome {
    Outcome::Snoozed { delay: Duration::from_secs(5) }
}

fn cancelled() -> Outcome {
    Outcome::Cancelled { note: "not needed".into() }
}

/// The last claim and its neighbours: nothing claimed, the one before, the present one, one never given out.
fn leases(task: &Task) -> BTreeSet<Lease> {
    let lease = task.status.lease;
    BTreeSet::from([0, lease.saturating_sub(1), lease, lease + 1])
}

/// All that a worker may say about a claim, truly or not: each lease from each of two workers.
fn claims_of_workers(life: &Life) -> Vec<Command> {
    let mut commands = Vec::new();
    for lease in leases(&life.task) {
        for by in ["a", "b"] {
            let token = || life.token_of(lease, by);
            for at in [None, Some(Timestamp::MIN), Some(Timestamp::MAX)] {
                commands.push(Command::Start { token: token(), at });
            }
            for outcome in [completed(), failed(true), failed(false), snoozed(), cancelled()] {
                commands.push(Command::Finish { token: token(), outcome, started_at: None });
            }
            for started_at in [Timestamp::MIN, Timestamp::MAX] {
                let started_at = Some(started_at);
                commands.push(Command::Finish { token: token(), outcome: completed(), started_at });
            }
            commands.push(Command::Release { token: token(), note: None });
        }
    }
    commands
}

/// All that an operator or the leader may ask for, without what depends on a heartbeat.
fn wishes(task: TaskId) -> Vec<Command> {
    let by = || By { actor: Some("ada".into()), note: None };
    vec![
        Command::Cancel { task, by: by() },
        Command::Retry { task, force: false, by: by() },
        Command::Retry { task, force: true, by: by() },
        Command::Resolve { task, result: None, by: by() },
        Command::Resolve { task, result: Some(Json::default()), by: by() },
        Command::Promote { task },
        Command::Delete { task },
    ]
}

/// Every move from here: the clock an hour back, still, and ahead of everything that is due.
fn moves(life: &Life) -> Vec<Move> {
    let (id, last) = (life.task.id, life.task.status.updated_at);
    let mut moves = Vec::new();
    for now in [last.minus(Duration::from_secs(3600)), last, last.plus(LONG)] {
        let about = claims_of_workers(life).into_iter().chain(wishes(id));
        moves.extend(about.map(|command| Move::new(command, now)));
        for by in ["a", "b"] {
            let claim = Move::new(Command::Claim { task: id, worker: worker(by) }, now);
            moves.push(Move { paused: true, ..claim.clone() });
            moves.push(claim);
        }
        for lease in leases(&life.task) {
            let heartbeats = [None, Some(now.minus(LONG)), Some(now), Some(now.plus(LONG))];
            let expire = Move::new(Command::Expire { task: id, lease }, now);
            moves.extend(heartbeats.map(|alive_until| Move { alive_until, ..expire.clone() }));
        }
    }
    moves
}

/// What must hold of a row and its history, however they came about.
fn check_row(life: &Life) {
    let (status, state, history) = (&life.task.status, life.task.status.state, &life.history);
    assert_eq!(history::fault(history), None, "{life:#?}");
    assert_eq!(history.last().unwrap().to, state, "the history ends where the task is: {life:#?}");
    assert_eq!(history.len(), usize::try_from(status.entries).unwrap(), "{life:#?}");
    assert_eq!(history::attempts_used(history), status.attempt, "{life:#?}");
    let attempts = history::attempts(history);
    assert_eq!(attempts.len(), usize::try_from(status.lease).unwrap(), "one lease per claim: {life:#?}");
    assert_eq!(attempts.iter().any(|attempt| attempt.ended.is_none()), state.is_held(), "{life:#?}");

    assert_eq!(status.finished_at.is_some(), state.is_final(), "{life:#?}");
    assert_eq!(status.due_at.is_some(), state.is_timed(), "{life:#?}");
    assert_eq!(status.error.is_some(), state.has_error(), "{life:#?}");
    assert_eq!(status.claimed_at.is_some(), status.worker.is_some(), "{life:#?}");
    assert_eq!(status.worker.is_some(), is_or_ended_held(history), "{life:#?}");
    assert!(status.started_at.is_none() || status.started_at >= status.claimed_at, "{life:#?}");
    match state {
        State::Running => assert!(status.started_at.is_some(), "{life:#?}"),
        state if state.is_final() => {}
        _ => assert_eq!(status.started_at, None, "{life:#?}"),
    }
    let max = life.task.spec.max_attempts;
    assert!(max.is_none_or(|max| status.attempt <= max.get()), "I13: {life:#?}");
    assert!(!status.slot || (life.task.spec.lane.is_some() && !state.is_final()), "{life:#?}");
    if state == State::Pending {
        let spec = &life.task.spec;
        let place = rank(spec.priority, spec.ageing, spec.created_at, status.attempt);
        assert_eq!(status.rank, place, "{life:#?}");
    }
}

/// A worker stands in the row while it holds the task, and stays there if the task ended in its hands.
fn is_or_ended_held(history: &[Entry]) -> bool {
    let last_open = history.iter().rev().find(|entry| !entry.to.is_final());
    last_open.is_some_and(|entry| entry.to.is_held())
}

/// What must hold of every step that changes something.
fn check_step(before: &Life, step: &Move, change: &TaskChange) {
    let (old, new) = (&before.task.status, &change.after);
    let context = || format!("{step:?}\nfrom {before:#?}\nto {change:#?}");
    assert_eq!(change.id, before.task.id, "{}", context());
    assert!(!change.entries.is_empty(), "every change is in the history: {}", context());
    assert!(new.updated_at >= old.updated_at, "{}", context());
    let is_claim = matches!(step.command, Command::Claim { .. });
    assert_eq!(new.lease, old.lease + u32::from(is_claim), "one lease per claim, I4: {}", context());
    assert_eq!(is_claim, change.entries.iter().any(|entry| entry.to == State::Claimed), "{}", context());
    assert!(!is_claim || !step.paused, "a paused queue gives nothing out: {}", context());

    match new.state {
        State::Completed => assert!(change.result.is_some(), "{}", context()),
        State::ResolvedManually => {}
        _ => assert_eq!(change.result, None, "{}", context()),
    }
    assert!(is_entitled(before, step), "I5, a stale token changes nothing: {}", context());
    check_slot(before, change, &context);
}

/// Whether the command may change the task at all: a worker only with the token of the present claim,
/// the leader only when the moment has come, and only an operator something that is final (I3, I6, I19).
fn is_entitled(before: &Life, step: &Move) -> bool {
    let status = &before.task.status;
    match &step.command {
        Command::Start { token, .. } | Command::Finish { token, .. } | Command::Release { token, .. } => {
            let holder = status.worker.as_ref();
            status.state.is_held() && token.lease == status.lease && holder == Some(&token.worker)
        }
        Command::Expire { lease, .. } => {
            let is_dead = step.alive_until.is_none_or(|until| until <= step.now);
            status.state.is_held() && *lease == status.lease && is_dead
        }
        Command::Claim { .. } => before.task.is_claimable(),
        Command::Promote { .. } => status.due_at.is_some_and(|due| due <= step.now),
        Command::Cancel { .. } => !status.state.is_final(),
        Command::Retry { .. } | Command::Resolve { .. } => true,
        Command::Delete { .. } => false,
    }
}

/// Only a store gives slots. A final task gives its slot back, and a timed one too unless its lane is strict;
/// whoever may get the free slot, or now wants one, is announced by `moves_lane`.
fn check_slot(before: &Life, change: &TaskChange, context: &dyn Fn() -> String) {
    let (had, has, state) = (before.task.status.slot, change.after.slot, change.after.state);
    let is_strict = before.task.spec.lane.as_ref().is_some_and(Lane::is_strict);
    let keeps = !state.is_final() && (is_strict || !state.is_timed());
    assert_eq!(has, had && keeps, "{}", context());
    let wants = before.task.spec.lane.is_some() && state == State::Pending && !has;
    assert_eq!(change.moves_lane(&before.task), (had && !has) || wants, "{}", context());
}

/// What a walk has come across.
#[derive(Default)]
struct Seen {
    tasks: usize,
    states: BTreeSet<State>,
    arrows: BTreeSet<(State, State)>,
    accepted: usize,
    repeated: usize,
    refused: usize,
}

impl Seen {
    fn add(&mut self, other: Self) {
        let Self { tasks, states, arrows, accepted, repeated, refused } = other;
        self.tasks += tasks;
        self.states.extend(states);
        self.arrows.extend(arrows);
        self.accepted += accepted;
        self.repeated += repeated;
        self.refused += refused;
    }
}

/// The part of a task that differs within one walk, in a form that can be put into a set. Taken apart field
/// by field, so that a new one cannot be forgotten.
fn key(task: &Task) -> impl Eq + std::hash::Hash + use<> {
    let windlass_core::Status {
        state,
        attempt,
        lease,
        worker,
        due_at,
        claimed_at,
        started_at,
        finished_at,
        updated_at,
        error,
        slot,
        rank,
        entries,
    } = task.status.clone();
    let times = (due_at, claimed_at, started_at, finished_at, updated_at);
    (times, (state, attempt, lease, worker), (error, slot, rank, entries))
}

/// All lives of at most `depth` steps that begin with `start`.
fn walk(start: Life, depth: usize) -> Seen {
    check_row(&start);
    let mut seen = Seen { states: BTreeSet::from([start.task.status.state]), ..Seen::default() };
    let mut known = HashSet::from([key(&start.task)]);
    let mut edge = vec![start];
    for _ in 0..depth {
        let mut next = Vec::new();
        for life in &edge {
            let mut reached = given_slot(life);
            for step in moves(life) {
                reached.extend(take(life, &step, &mut seen));
            }
            next.extend(reached.into_iter().filter(|life| known.insert(key(&life.task))));
        }
        edge = next;
    }
    seen.tasks = known.len();
    seen
}

/// What a store does in the same transaction when a slot is free; not a command.
fn given_slot(life: &Life) -> Vec<Life> {
    let mut with_slot = life.clone();
    with_slot.task.status.slot = true;
    if life.task.is_parked() { vec![with_slot] } else { Vec::new() }
}

/// One move: checks the answer and gives the life it leads to, if it leads anywhere.
fn take(life: &Life, step: &Move, seen: &mut Seen) -> Option<Life> {
    let Ok(changes) = life.ask(step) else {
        seen.refused += 1;
        return None;
    };
    if matches!(step.command, Command::Delete { .. }) {
        assert!(life.task.status.state.is_final() && changes.tasks.is_empty(), "{step:?} of {life:#?}");
        assert_eq!(changes.deleted, [life.task.id]);
        seen.accepted += 1;
        return None;
    }
    assert_eq!(changes.deleted, [], "{step:?} of {life:#?}");
    let Some(change) = changes.tasks.first() else {
        seen.repeated += 1;
        return None;
    };
    assert_eq!(changes.tasks.len(), 1);
    check_step(life, step, change);
    let after = life.after(change);
    check_row(&after);
    seen.accepted += 1;
    seen.states.insert(after.task.status.state);
    seen.arrows.extend(change.entries.iter().map(|entry| (entry.from.unwrap(), entry.to)));
    Some(after)
}

/// Where lives begin: claimable and delayed, with and without a lane, with one, two and unlimited attempts, and
/// the two states that only workflows lead to.
fn beginnings() -> Vec<Life> {
    let later = |new: &mut NewTask| new.start = Start::After(Duration::from_secs(10));
    let lane = || Lane::new("door", 1).unwrap();
    vec![
        Life::submitted(Some(1), |_| ()),
        Life::submitted(Some(2), |_| ()),
        Life::submitted(None, |_| ()),
        Life::submitted(Some(2), later),
        Life::submitted(Some(2), |new| new.lane = Some(lane())),
        Life::submitted(Some(2), |new| new.lane = Some(lane().strict())),
        Life::submitted(Some(1), |new| {
            new.lane = Some(lane().strict());
            later(new);
        }),
        Life::waiting(Some(2)),
        Life::skipped(Some(2)),
    ]
}

/// Every arrow of the table, except those that only a workflow takes.
fn arrows_without_workflows() -> BTreeSet<(State, State)> {
    let all = State::ALL.into_iter().flat_map(|from| State::ALL.map(|to| (from, to)));
    let legal = all.filter(|(from, to)| from.may_become(*to));
    let by_workflow = [State::Pending, State::Scheduled, State::Skipped];
    legal.filter(|(from, to)| *from != State::Waiting || !by_workflow.contains(to)).collect()
}

#[test]
fn every_short_life_keeps_the_promises_and_takes_every_arrow() {
    const DEPTH: usize = 7;
    let mut seen = Seen::default();
    thread::scope(|scope| {
        let walks: Vec<_> = beginnings().into_iter().map(|start| scope.spawn(|| walk(start, DEPTH))).collect();
        for walk in walks {
            seen.add(walk.join().unwrap());
        }
    });
    let Seen { tasks, states, arrows, accepted, repeated, refused } = seen;
    println!(
        "{tasks} tasks in {} states over {} arrows; {accepted} commands accepted, {repeated} had nothing to do, \
         {refused} refused",
        states.len(),
        arrows.len()
    );
    assert_eq!(states, BTreeSet::from(State::ALL));
    assert_eq!(arrows, arrows_without_workflows());
}
