//! Every short life of a task, and every state against every command.
//!
//! The walk starts from a freshly submitted task and applies all commands, with good and bad tokens and with
//! the clock behind and ahead, breadth first, down to a depth; every row and every step on the way must keep
//! the invariants I3 to I6, I9, I13 and I19 of docs/requirements.md. The tables say, for each state and each
//! command, what must follow: a new state, nothing, or a refusal by its code.
//!
//! Neither looks inside [`transition`]: the naive evaluator in `naive.rs` is the other oracle.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, missing_docs)]

use std::collections::{BTreeSet, HashSet};
use std::num::NonZeroU32;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use windlass_core::{
    Ageing, Before, Blueprint, By, Changes, Command, Entry, Json, Lane, Lease, Name, NewTask, NewWorkflow,
    Outcome, Parents, Place, Reason, Rejected, Report, Source, Start, State, Status, Task, TaskChange,
    TaskId, Timestamp, Token, Waits, Within, WorkerId, Workflow, WorkflowId, WorkflowState, history, limits,
    rank, transition,
};

/// Longer than every delay that occurs here, so that one such step of the clock makes anything due.
const LONG: Duration = Duration::from_secs(100);

/// A task together with the whole history that led to it, and the workflow that it is a step of, if it is
/// one.
#[derive(Clone, Debug)]
struct Life {
    task: Task,
    history: Vec<Entry>,
    workflow: Option<Workflow>,
}

/// A command, and what surrounds it when it arrives. The walk makes millions of them from few commands.
#[derive(Clone, Debug)]
struct Move {
    command: Rc<Command>,
    paused: bool,
    alive_until: Option<Timestamp>,
    now: Timestamp,
}

impl Move {
    fn new(command: impl Into<Rc<Command>>, now: Timestamp) -> Self {
        Self { command: command.into(), paused: false, alive_until: None, now }
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
        Self { task, history: vec![entry], workflow: None }
    }

    /// The first step of a workflow of two that is `state` and perhaps paused, claimable if `number` is 0 and
    /// waiting if it is 1.
    fn step(max: u32, number: usize, paused: bool, state: WorkflowState) -> Self {
        let text = format!(
            r#"{{"name": "walk", "defaults": {{"retry": {{"max_attempts": {max}}}}},
                "steps": {{"a": {{"task": "walk"}}, "b": {{"task": "walk", "needs": "a"}}}}}}"#
        );
        let blueprint = Blueprint::stored(&text).unwrap();
        let id = WorkflowId::new(uuid::Uuid::from_u128(7 << 64));
        let definition = Box::new(blueprint.definition().clone());
        let new = NewWorkflow::new(id, Source::AdHoc(definition), Json::default());
        let now = Timestamp::from_micros(1_800_000_000_000_000);
        let mut begun = new.admit(&blueprint, "1".into(), Within::default(), now);
        let (task, _, entry) = begun.steps.swap_remove(number);
        let workflow = Workflow { paused, state, ..begun.workflow };
        Self { task, history: vec![entry], workflow: Some(workflow) }
    }

    /// A task that waits for parents but knows of no workflow. No command leads here, so the row is written
    /// by hand.
    fn waiting(max: Option<u32>) -> Self {
        let mut life = Self::submitted(max, |_| ());
        life.task.status.state = State::Waiting;
        life.task.status.waits = Waits::Parents(Parents::default());
        life.history[0].to = State::Waiting;
        life
    }

    /// A task that its workflow decided not to run, written by hand for the same reason.
    fn skipped(max: Option<u32>) -> Self {
        let mut life = Self::waiting(max);
        let at = life.task.status.updated_at;
        let (seq, from, reason) = (2, Some(State::Waiting), Reason::Cancelled);
        life.history.push(Entry { seq, from, to: State::Skipped, at, actor: None, reason, note: None });
        let status = &mut life.task.status;
        (status.state, status.entries, status.finished_at) = (State::Skipped, 2, Some(at));
        status.waits = Waits::Nothing;
        life
    }

    fn ask(&self, step: &Move) -> Result<Changes, Rejected> {
        let before = Before {
            lanes_above: None,
            paused: step.paused,
            alive_until: step.alive_until,
            workflow: self.workflow.as_ref(),
            ..Before::of(&self.task)
        };
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
    fn then(&self, command: impl Into<Rc<Command>>) -> Self {
        self.then_at(command, self.task.status.updated_at)
    }

    fn then_at(&self, command: impl Into<Rc<Command>>, now: Timestamp) -> Self {
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

/// A failure after which the task is tried again without delay.
fn failed_now() -> Outcome {
    Outcome::Failed { error: "broken".into(), retryable: true, retry_after: Some(Duration::ZERO) }
}

fn snoozed() -> Outcome {
    Outcome::Snoozed { delay: Duration::from_secs(5) }
}

fn cancelled() -> Outcome {
    Outcome::Cancelled { note: "not needed".into() }
}

fn skipped() -> Outcome {
    Outcome::Skipped { note: "its condition is false".into() }
}

fn expanded(items: usize) -> Outcome {
    Outcome::Expanded { items: vec![Json::default(); items], max_parallel: None, lanes: Vec::new() }
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
            commands.push(Command::Report { token: token(), report: Report::default() });
            for at in [None, Some(Timestamp::MIN), Some(Timestamp::MAX)] {
                commands.push(Command::Start { token: token(), at });
            }
            for outcome in [completed(), failed(true), failed(false), failed_now(), snoozed(), cancelled()] {
                commands.push(Command::Finish { token: token(), outcome, started_at: None });
            }
            for outcome in [skipped(), expanded(0), expanded(2)] {
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
        Command::Postpone { task, delay: Duration::from_secs(3) },
        Command::Resolve { task, result: None, by: by() },
        Command::Resolve { task, result: Some(Json::default()), by: by() },
        Command::Skip { task, by: by() },
        Command::Promote { task },
        Command::Delete { task },
    ]
}

/// Every move from here: with the clock an hour back, where no time passes and nothing is due, and ahead of
/// all that can be due.
fn moves(life: &Life) -> Vec<Move> {
    let (id, last) = (life.task.id, life.task.status.updated_at);
    let plain: Vec<_> = claims_of_workers(life).into_iter().chain(wishes(id)).map(Rc::new).collect();
    let claims = ["a", "b"].map(|by| Rc::new(Command::Claim { task: id, worker: worker(by) }));
    let expiries: Vec<_> =
        leases(&life.task).into_iter().map(|lease| Rc::new(Command::Expire { task: id, lease })).collect();
    let mut moves = Vec::new();
    for now in [last.minus(Duration::from_secs(3600)), last.plus(LONG)] {
        let with = |command: &Rc<Command>| Move::new(command.clone(), now);
        moves.extend(plain.iter().chain(&claims).map(with));
        moves.extend(claims.iter().map(|claim| Move { paused: true, ..with(claim) }));
        for alive_until in [None, Some(now.minus(LONG)), Some(now), Some(now.plus(LONG))] {
            moves.extend(expiries.iter().map(|expire| Move { alive_until, ..with(expire) }));
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
    assert_eq!(status.waits != Waits::Nothing, state == State::Waiting, "{life:#?}");
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
    if matches!(*step.command, Command::Postpone { .. }) {
        let due = step.now.plus(Duration::from_secs(3));
        let put_off = TaskChange {
            id: before.task.id,
            after: Status { due_at: Some(due), ..old.clone() },
            result: None,
            entries: Vec::new(),
        };
        assert_eq!(*change, put_off, "nothing but the moment: {}", context());
    } else {
        assert!(!change.entries.is_empty(), "every change of state is in the history: {}", context());
    }
    assert!(new.updated_at >= old.updated_at, "{}", context());
    let is_claim = matches!(*step.command, Command::Claim { .. });
    assert_eq!(new.lease, old.lease + u32::from(is_claim), "one lease per claim, I4: {}", context());
    assert_eq!(is_claim, change.entries.iter().any(|entry| entry.to == State::Claimed), "{}", context());
    assert!(!is_claim || !step.paused, "a paused queue gives nothing out: {}", context());
    let is_paused = before.workflow.as_ref().is_some_and(|workflow| workflow.paused);
    assert!(new.state != State::Pending || !is_paused, "what is paused is not handed out: {}", context());

    let nothing = Json::result("[]").unwrap();
    let result = match &*step.command {
        Command::Finish { outcome: Outcome::Completed { result }, .. } => Some(result),
        Command::Finish { outcome: Outcome::Expanded { items, .. }, .. } if items.is_empty() => {
            Some(&nothing)
        }
        Command::Resolve { result, .. } => result.as_ref(),
        _ => None,
    };
    assert_eq!(change.result.as_ref(), result, "{}", context());
    assert!(new.state != State::Completed || result.is_some(), "{}", context());
    assert!(is_entitled(before, step), "I5, a stale token changes nothing: {}", context());
    check_slot(before, step, change, &context);
    let has_started =
        old.state == State::Running || change.entries.iter().any(|entry| entry.to == State::Running);
    assert!(
        new.state != State::DeadLetter || has_started,
        "I13, what never started is no dead letter: {}",
        context()
    );
    if matches!(*step.command, Command::Expire { .. }) && old.state == State::Claimed {
        let is_first_of_several = old.attempt == 1 && !before.task.is_exhausted();
        let left = if is_first_of_several { 1 } else { old.attempt - 1 };
        assert_eq!(new.attempt, left, "I13, one attempt at most is lost before the start: {}", context());
    }
}

/// Whether the command may change the task at all: a worker only with the token of the present claim,
/// the leader only when the moment has come, and only an operator something that is final (I3, I6, I19).
fn is_entitled(before: &Life, step: &Move) -> bool {
    let status = &before.task.status;
    match &*step.command {
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
        Command::Postpone { .. } => status.state == State::WaitingForRetry,
        Command::Retry { .. } | Command::Resolve { .. } => is_open(before),
        Command::Skip { .. } => before.workflow.is_some() && is_open(before),
        Command::Report { .. } | Command::Delete { .. } => false,
    }
}

/// Whether an operator may change a step: not in a workflow that is over, but for one in error, which is
/// opened again.
fn is_open(life: &Life) -> bool {
    let over = [WorkflowState::Complete, WorkflowState::Cancelled, WorkflowState::ResolvedManually];
    life.workflow.as_ref().is_none_or(|workflow| !over.contains(&workflow.state))
}

/// Only a store gives slots. A final task gives its slot back, and one that is timed or has failed too unless
/// its lane is strict. `moves_lane` announces a slot that became free, and a task that joins or leaves the
/// line for one: behind the one that leaves may stand another whose own limit is larger.
fn check_slot(before: &Life, step: &Move, change: &TaskChange, context: &dyn Fn() -> String) {
    let (had, has, state) = (before.task.status.slot, change.after.slot, change.after.state);
    let lane = before.task.spec.lane.as_ref();
    let fails = matches!(*step.command, Command::Finish { outcome: Outcome::Failed { .. }, .. });
    let keeps = !state.is_final() && (lane.is_some_and(Lane::is_strict) || !(state.is_timed() || fails));
    assert_eq!(has, had && keeps, "{}", context());
    let joins = lane.is_some() && state == State::Pending && !has;
    let leaves = before.task.is_parked();
    assert_eq!(change.moves_lane(&before.task), (had && !has) || joins || leaves, "{}", context());
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
    let Status {
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
        waits,
    } = task.status.clone();
    let times = (due_at, claimed_at, started_at, finished_at, updated_at);
    (times, (state, attempt, lease, worker), (error, slot, rank, entries, waits))
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
    if matches!(*step.command, Command::Delete { .. }) {
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
    check_items(life, change, &changes);
    let after = life.after(change);
    check_row(&after);
    seen.accepted += 1;
    seen.states.insert(after.task.status.state);
    seen.arrows.extend(change.entries.iter().map(|entry| (entry.from.unwrap(), entry.to)));
    Some(after)
}

/// A step that has items waits for all of them; they begin claimable unless the workflow is paused, in the
/// order of the list.
fn check_items(life: &Life, change: &TaskChange, changes: &Changes) {
    let of = match change.after.waits {
        Waits::Items { settled, of } => {
            assert_eq!(settled, 0, "{changes:#?}");
            of
        }
        _ => 0,
    };
    assert_eq!(changes.created.len(), usize::try_from(of).unwrap(), "{changes:#?}");
    for (index, (item, _, entry)) in (0..).zip(&changes.created) {
        let step = Place::of(life.task.id).step;
        assert_eq!(item.place(), Some(Place { step, item: Some(index) }));
        let is_paused = life.workflow.as_ref().unwrap().paused;
        let wanted =
            if is_paused { (State::Waiting, Waits::Resume) } else { (State::Pending, Waits::Nothing) };
        assert_eq!((item.status.state, item.status.waits), wanted);
        assert_eq!((entry.seq, entry.from, entry.to), (1, None, wanted.0));
    }
}

/// Where lives begin: claimable and delayed, with and without a lane, with one, two and unlimited attempts,
/// and the two states that only workflows lead to.
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
        Life::step(1, 0, false, WorkflowState::StepsInProcess),
        Life::step(1, 0, true, WorkflowState::StepsInProcess),
        Life::step(2, 0, true, WorkflowState::StepsInProcess),
        Life::step(2, 1, false, WorkflowState::StepsInProcess),
        Life::step(1, 0, false, WorkflowState::Error),
        Life::step(1, 0, false, WorkflowState::Cancelled),
    ]
}

/// Every arrow of the table, except those that only the rest of a workflow makes a step take: it is ready,
/// paused, or has its items or its workflow behind it.
fn arrows_by_commands() -> BTreeSet<(State, State)> {
    let all = State::ALL.into_iter().flat_map(|from| State::ALL.map(|to| (from, to)));
    let legal = all.filter(|(from, to)| from.may_become(*to));
    let by_others = [State::Pending, State::Scheduled, State::Completed, State::Failed];
    let from_waiting = |from, to| from == State::Waiting && by_others.contains(&to);
    legal
        .filter(|(from, to)| !from_waiting(*from, *to) && (*from, *to) != (State::Pending, State::Waiting))
        .collect()
}

#[test]
fn every_short_life_keeps_the_promises_and_takes_every_arrow() {
    const DEPTH: usize = 7;
    let mut seen = Seen::default();
    thread::scope(|scope| {
        let walks: Vec<_> =
            beginnings().into_iter().map(|start| scope.spawn(|| walk(start, DEPTH))).collect();
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
    assert_eq!(arrows, arrows_by_commands());
}

/// What each command does to a task that is not final, with attempts left. A word is the state it moves to,
/// `-` is accepted with nothing to do, and `!` stands before the code of a refusal. Workers' commands name
/// the last claim (or, where there was none, the first to come), worker `a` being its holder.
///
/// A permanent failure is not a repeat of the retryable one that was recorded: its sender must not believe
/// that no attempt follows.
const OPEN: &str = "
                  waiting            scheduled          pending            claimed            running            waiting_for_retry
claim             !waiting           !not_due           claimed            -                  -                  !not_due
claim_by_other    !waiting           !not_due           claimed            !already_claimed   !already_claimed   !not_due
claim_paused      !waiting           !not_due           !queue_paused      -                  -                  !not_due
start             !not_claimed       !not_claimed       !not_claimed       running            -                  !lease_lost
complete          !not_claimed       !not_claimed       !not_claimed       completed          completed          !lease_lost
fail              !not_claimed       !not_claimed       !not_claimed       waiting_for_retry  waiting_for_retry  -
fail_now          !not_claimed       !not_claimed       !not_claimed       pending            pending            -
fail_for_good     !not_claimed       !not_claimed       !not_claimed       failed             failed             !lease_lost
snooze            !not_claimed       !not_claimed       !not_claimed       scheduled          scheduled          !lease_lost
give_up           !not_claimed       !not_claimed       !not_claimed       cancelled          cancelled          !lease_lost
release           !not_claimed       !not_claimed       !not_claimed       pending            pending            !lease_lost
cancel            cancelled          cancelled          cancelled          cancelled          cancelled          cancelled
retry             !waiting           pending            -                  pending            pending            pending
retry_by_force    !waiting           pending            -                  pending            pending            pending
postpone          !not_retrying      !not_retrying      !not_retrying      !not_retrying      !not_retrying      waiting_for_retry
resolve           resolved_manually  resolved_manually  resolved_manually  resolved_manually  resolved_manually  resolved_manually
promote_early     !not_timed         !not_due           !not_timed         !not_timed         !not_timed         !not_due
promote_due       !not_timed         pending            !not_timed         !not_timed         !not_timed         pending
expire_alive      !not_claimed       !not_claimed       !not_claimed       !lease_alive       !lease_alive       !lease_lost
expire_dead       !not_claimed       !not_claimed       !not_claimed       pending            pending            !lease_lost
expire_missing    !not_claimed       !not_claimed       !not_claimed       pending            pending            !lease_lost
delete            !not_final         !not_final         !not_final         !not_final         !not_final         !not_final
skip              !not_step          !not_step          !not_step          !not_step          !not_step          !not_step
skip_itself       !not_claimed       !not_claimed       !not_claimed       !not_step          !not_step          !lease_lost
expand            !not_claimed       !not_claimed       !not_claimed       !not_step          !not_step          !lease_lost
";

/// The same for a task that is final. Completing what is completed and failing what has failed is no error
/// (4.4, 4.5), and keeps the first answer.
const OVER: &str = "
                  completed          failed             dead_letter            cancelled       skipped         resolved_manually
claim             !task_completed    !task_failed       !task_failed           !task_settled   !task_settled   !task_settled
claim_by_other    !task_completed    !task_failed       !task_failed           !task_settled   !task_settled   !task_settled
claim_paused      !task_completed    !task_failed       !task_failed           !task_settled   !task_settled   !task_settled
start             !task_completed    !task_failed       !task_failed           !task_settled   !task_settled   !task_settled
complete          -                  !task_failed       !task_failed           !task_settled   !task_settled   !task_settled
fail              !task_completed    -                  -                      !task_settled   !task_settled   !task_settled
fail_for_good     !task_completed    -                  -                      !task_settled   !task_settled   !task_settled
snooze            !task_completed    !task_failed       !task_failed           !task_settled   !task_settled   !task_settled
give_up           !task_completed    !task_failed       !task_failed           -               !task_settled   !task_settled
release           !task_completed    !task_failed       !task_failed           !task_settled   !task_settled   !task_settled
cancel            !task_completed    !task_failed       !task_failed           -               !task_settled   !task_settled
retry             !task_completed    pending            !max_attempts_reached  pending         !task_settled   !task_settled
retry_by_force    !task_completed    pending            pending                pending         !task_settled   !task_settled
postpone          !not_retrying      !not_retrying      !not_retrying          !not_retrying   !not_retrying   !not_retrying
resolve           !task_completed    resolved_manually  resolved_manually      !task_settled   !task_settled   -
promote_early     !not_timed         !not_timed         !not_timed             !not_timed      !not_timed      !not_timed
promote_due       !not_timed         !not_timed         !not_timed             !not_timed      !not_timed      !not_timed
expire_alive      !task_completed    !task_failed       !task_failed           !task_settled   !task_settled   !task_settled
expire_dead       !task_completed    !task_failed       !task_failed           !task_settled   !task_settled   !task_settled
expire_missing    !task_completed    !task_failed       !task_failed           !task_settled   !task_settled   !task_settled
delete            deleted            deleted            deleted                deleted         deleted         deleted
skip              !not_step          !not_step          !not_step              !not_step       !not_step       !not_step
";

/// Where the last attempt makes a difference: the task was given one attempt and has used it.
const LAST_ATTEMPT: &str = "
                  claimed                running                failed                 cancelled
fail              dead_letter            dead_letter            -                      !task_settled
fail_now          dead_letter            dead_letter            -                      !task_settled
fail_for_good     failed                 failed                 -                      !task_settled
snooze            scheduled              scheduled              !task_failed           !task_settled
release           pending                pending                !task_failed           !task_settled
retry             !max_attempts_reached  !max_attempts_reached  !max_attempts_reached  !max_attempts_reached
retry_by_force    pending                pending                pending                pending
expire_alive      !lease_alive           !lease_alive           !task_failed           !task_settled
expire_dead       pending                dead_letter            !task_failed           !task_settled
expire_missing    pending                dead_letter            !task_failed           !task_settled
";

/// A task in `state` that reached it by the shortest way, through the hands of worker `a` where there were
/// any.
fn example(state: State, max: Option<u32>) -> Life {
    let pending = || Life::submitted(max, |_| ());
    let claimed = || pending().claim("a");
    match state {
        State::Waiting => Life::waiting(max),
        State::Scheduled => Life::submitted(max, |new| new.start = Start::After(Duration::from_secs(10))),
        State::Pending => pending(),
        State::Claimed => claimed(),
        State::Running => claimed().then(Command::Start { token: claimed().token(), at: None }),
        State::WaitingForRetry => claimed().finish(failed(true)),
        State::Completed => claimed().finish(completed()),
        State::Failed => claimed().finish(failed(false)),
        State::DeadLetter => Life::submitted(Some(1), |_| ()).claim("a").finish(failed(true)),
        State::Cancelled => claimed().finish(cancelled()),
        State::Skipped => Life::skipped(max),
        State::ResolvedManually => {
            let (task, by) = (claimed().task.id, By::default());
            claimed().then(Command::Resolve { task, result: None, by })
        }
    }
}

/// The command that a row of the tables names, made for `life`, a moment after its last change.
fn named(name: &str, life: &Life) -> Move {
    let (task, token, by) = (life.task.id, life.token(), By::default());
    let now = life.task.status.updated_at.plus(Duration::from_millis(1));
    let finish = |outcome| Command::Finish { token: token.clone(), outcome, started_at: None };
    let claim = |by| Command::Claim { task, worker: worker(by) };
    let command = match name {
        "claim" | "claim_paused" => claim("a"),
        "claim_by_other" => claim("b"),
        "start" => Command::Start { token, at: None },
        "complete" => finish(completed()),
        "fail" => finish(failed(true)),
        "fail_now" => finish(failed_now()),
        "fail_for_good" => finish(failed(false)),
        "snooze" => finish(snoozed()),
        "give_up" => finish(cancelled()),
        "release" => Command::Release { token, note: None },
        "cancel" => Command::Cancel { task, by },
        "retry" => Command::Retry { task, force: false, by },
        "retry_by_force" => Command::Retry { task, force: true, by },
        "postpone" => Command::Postpone { task, delay: Duration::from_secs(3) },
        "resolve" => Command::Resolve { task, result: Some(Json::default()), by },
        "promote_early" | "promote_due" => Command::Promote { task },
        "expire_alive" | "expire_dead" | "expire_missing" => Command::Expire { task, lease: token.lease },
        "delete" => Command::Delete { task },
        "skip" => Command::Skip { task, by },
        "skip_itself" => finish(skipped()),
        "expand" => finish(expanded(2)),
        "expand_nothing" => finish(expanded(0)),
        unknown => panic!("no command is called {unknown:?}"),
    };
    let alive_until = match name {
        "expire_alive" => Some(now.plus(LONG)),
        "expire_dead" => Some(now),
        _ => None,
    };
    let now = if name == "promote_due" { now.plus(LONG) } else { now };
    Move { command: command.into(), paused: name == "claim_paused", alive_until, now }
}

/// The answer in the words of the tables. An accepted one is checked like every step of the walk.
fn answer(life: &Life, step: &Move) -> String {
    match life.ask(step) {
        Err(rejected) => format!("!{}", rejected.code()),
        Ok(changes) if !changes.deleted.is_empty() => "deleted".into(),
        Ok(_) => match take(life, step, &mut Seen::default()) {
            Some(after) => after.task.status.state.to_string(),
            None => "-".into(),
        },
    }
}

/// Compares a whole table and reports every cell that differs; gives the number of cells.
fn check_table(table: &str, max: Option<u32>) -> usize {
    let mut rows = table.lines().filter(|line| !line.is_empty()).map(str::split_whitespace);
    let states: Vec<State> = rows.next().unwrap().map(|word| word.parse().unwrap()).collect();
    let (mut cells, mut wrong) = (0, Vec::new());
    for mut row in rows {
        let name = row.next().unwrap();
        let wanted: Vec<&str> = row.collect();
        assert_eq!(wanted.len(), states.len(), "cells of {name}");
        for (state, wanted) in states.iter().zip(wanted) {
            let life = example(*state, max);
            assert_eq!(life.task.status.state, *state);
            let got = answer(&life, &named(name, &life));
            cells += 1;
            if got != wanted {
                wrong.push(format!("{name} of a task that is {state}: wanted {wanted}, got {got}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    cells
}

#[test]
fn every_command_in_every_state_answers_as_the_design_says() {
    let cells = check_table(OPEN, Some(3)) + check_table(OVER, Some(3));
    assert_eq!(cells, 25 * 6 + 22 * 6);
    check_table(OVER, None);
    check_table(OPEN, None);
}

/// What is different for a step, by what is known of its workflow: it goes on, is paused, is in error, is
/// over.
const STEP: &str = "
                open               paused             error              over
claimed
skip            skipped            skipped            skipped            !workflow_over
skip_itself     skipped            skipped            skipped            skipped
expand          waiting            waiting            waiting            waiting
expand_nothing  completed          completed          completed          completed
release         pending            waiting            pending            pending
fail_now        pending            waiting            pending            pending
expire_dead     pending            waiting            pending            pending
retry           pending            waiting            pending            !workflow_over
resolve         resolved_manually  resolved_manually  resolved_manually  !workflow_over
cancel          cancelled          cancelled          cancelled          cancelled
delete          !is_step           !is_step           !is_step           !is_step
waiting_for_retry
skip            skipped            skipped            skipped            !workflow_over
promote_due     pending            waiting            pending            pending
postpone        waiting_for_retry  waiting_for_retry  waiting_for_retry  waiting_for_retry
retry           pending            waiting            pending            !workflow_over
failed
skip            skipped            skipped            skipped            !workflow_over
retry           pending            waiting            pending            !workflow_over
retry_by_force  pending            waiting            pending            !workflow_over
resolve         resolved_manually  resolved_manually  resolved_manually  !workflow_over
delete          !is_step           !is_step           !is_step           !is_step
cancelled
skip            !task_settled      !task_settled      !task_settled      !task_settled
retry           pending            waiting            pending            !workflow_over
resolve         !task_settled      !task_settled      !task_settled      !task_settled
completed
skip            !task_completed    !task_completed    !task_completed    !task_completed
retry           !task_completed    !task_completed    !task_completed    !task_completed
delete          !is_step           !is_step           !is_step           !is_step
skipped
skip            -                  -                  -                  -
skip_itself     -                  -                  -                  -
retry           !task_settled      !task_settled      !task_settled      !task_settled
";

#[test]
fn a_step_obeys_its_workflow() {
    let mut lines = STEP.lines().filter(|line| !line.trim().is_empty());
    let columns: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    let (mut state, mut wrong) = (State::Claimed, Vec::new());
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [word] = words[..] {
            state = word.parse().unwrap();
            continue;
        }
        for (column, wanted) in columns.iter().zip(&words[1..]) {
            let open = Life::step(3, 0, false, WorkflowState::StepsInProcess).claim("a");
            let mut life = match state {
                State::Claimed => open,
                State::WaitingForRetry => open.finish(failed(true)),
                State::Failed => open.finish(failed(false)),
                State::Cancelled => open.finish(cancelled()),
                State::Completed => open.finish(completed()),
                State::Skipped => open.finish(skipped()),
                state => panic!("no step is brought to {state}"),
            };
            let workflow = life.workflow.as_mut().unwrap();
            match *column {
                "paused" => workflow.paused = true,
                "error" => workflow.state = WorkflowState::Error,
                "over" => workflow.state = WorkflowState::Cancelled,
                _ => {}
            }
            let got = match life.ask(&named(words[0], &life)) {
                Err(rejected) => format!("!{}", rejected.code()),
                Ok(changes) => {
                    changes.tasks.first().map_or("-".into(), |change| change.after.state.to_string())
                }
            };
            if got != **wanted {
                wrong.push(format!("{} of a {state} step, {column}: wanted {wanted}, got {got}", words[0]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_last_attempt_ends_in_dead_letters_and_is_not_retried_without_force() {
    check_table(LAST_ATTEMPT, Some(1));
}

/// I13: however often the workers of others die, a task that never starts loses one attempt and is never a
/// dead letter; one that is started each time is one after its attempts.
#[test]
fn a_loss_before_the_start_costs_one_attempt_at_most() {
    for max in [Some(1), Some(2), Some(3), None] {
        let (mut idle, mut killer) = (Life::submitted(max, |_| ()), Life::submitted(max, |_| ()));
        for _ in 0..9 {
            let claimed = idle.claim("a");
            let lease = claimed.task.status.lease;
            idle = claimed.then(Command::Expire { task: claimed.task.id, lease });
            check_row(&idle);
            let lost = u32::from(max != Some(1));
            assert_eq!((idle.task.status.state, idle.task.status.attempt), (State::Pending, lost), "{max:?}");
            if killer.task.status.state == State::Pending {
                let claimed = killer.claim("a");
                let started = match claimed.task.must_record_start() {
                    true => claimed.then(Command::Start { token: claimed.token(), at: None }),
                    false => claimed,
                };
                let lease = started.task.status.lease;
                killer = started.then(Command::Expire { task: started.task.id, lease });
                check_row(&killer);
            }
        }
        let (state, used) = (killer.task.status.state, killer.task.status.attempt);
        assert_eq!((state, used), max.map_or((State::Pending, 9), |max| (State::DeadLetter, max)));
    }
}

#[test]
fn a_parked_task_is_claimed_only_with_a_slot() {
    let parked = Life::submitted(None, |new| new.lane = Some(Lane::new("door", 1).unwrap()));
    assert_eq!(answer(&parked, &named("claim", &parked)), "!lane_full");
    let ready = given_slot(&parked).remove(0);
    assert_eq!(answer(&ready, &named("claim", &ready)), "claimed");
}

/// The second claim, lease 2 of worker `a`, against all who do not have it.
#[test]
fn a_claim_obeys_its_own_token_and_no_other() {
    let held = example(State::WaitingForRetry, None);
    let (task, by) = (held.task.id, By::default());
    let held = held.then(Command::Retry { task, force: false, by }).claim("a");
    let now = held.task.status.updated_at;
    for (lease, by, wanted) in [
        (2, "b", "!wrong_worker"),
        (1, "a", "!lease_lost"),
        (1, "b", "!lease_lost"),
        (0, "a", "!lease_lost"),
        (3, "a", "!lease_lost"),
        (0, "b", "!wrong_worker"),
        (3, "b", "!wrong_worker"),
    ] {
        let token = || held.token_of(lease, by);
        let finish = |outcome| Command::Finish { token: token(), outcome, started_at: None };
        let mut commands = vec![Command::Start { token: token(), at: None }];
        commands.extend([completed(), failed(true), failed(false), snoozed(), cancelled()].map(finish));
        commands.push(Command::Release { token: token(), note: None });
        for command in commands {
            let got = answer(&held, &Move::new(command.clone(), now));
            assert_eq!(got, wanted, "{command:?}");
        }
    }
}

/// What was given back or taken away is lost to its last holder, also to one who gives it back again or too
/// late: an Ok would say that the attempt was returned. To others it was never claimed.
#[test]
fn a_claim_that_was_given_back_or_taken_away_is_lost() {
    for end in ["release", "expire_dead", "retry"] {
        let held = example(State::Running, None);
        let open = take(&held, &named(end, &held), &mut Seen::default()).unwrap();
        for (lease, wanted) in [(1, "!lease_lost"), (0, "!not_claimed"), (2, "!not_claimed")] {
            let token = || open.token_of(lease, "a");
            let finish = |outcome| Command::Finish { token: token(), outcome, started_at: None };
            let finishes = [completed(), failed(true), failed(false), snoozed(), cancelled()].map(finish);
            let release = Command::Release { token: token(), note: None };
            for command in finishes.into_iter().chain([release]) {
                let got = answer(&open, &Move::new(command.clone(), open.task.status.updated_at));
                assert_eq!(got, wanted, "{command:?} after {end}");
            }
        }
    }
}

/// An answer can be lost on the way. Asking for the same thing again is then no error and changes nothing.
#[test]
fn asking_twice_is_asking_once() {
    for (from, names) in [
        (State::Pending, &["claim", "cancel", "resolve"][..]),
        (State::Claimed, &["start", "complete", "fail", "fail_now", "fail_for_good", "snooze", "give_up"]),
        (State::Running, &["complete", "fail", "fail_now", "fail_for_good", "snooze", "give_up"]),
        (State::WaitingForRetry, &["retry", "cancel", "resolve"]),
        (State::Failed, &["retry_by_force", "resolve"]),
    ] {
        for max in [Some(1), Some(2), None] {
            let life =
                if max == Some(1) && from == State::WaitingForRetry { continue } else { example(from, max) };
            for name in names {
                let step = named(name, &life);
                let once = take(&life, &step, &mut Seen::default()).unwrap();
                for now in [step.now, step.now.plus(LONG), step.now.minus(LONG)] {
                    let again = once.ask(&Move { now, ..step.clone() });
                    assert_eq!(again, Ok(Changes::default()), "{name} of {from}, again");
                }
            }
        }
    }
}

/// 4.4: the first result stays, though the second differs.
#[test]
fn completing_twice_keeps_the_first_result() {
    let done = example(State::Completed, None);
    let outcome = Outcome::Completed { result: Json::result("2").unwrap() };
    let again = Command::Finish { token: done.token(), outcome, started_at: None };
    assert_eq!(done.ask(&Move::new(again, Timestamp::MAX)), Ok(Changes::default()));
}

/// The clock jumps back by an hour before every step, and even to its beginning; the history does not.
#[test]
fn history_times_never_go_back_when_the_clock_does() {
    let mut life = Life::submitted(None, |_| ());
    let begin = life.task.status.updated_at;
    let script = ["claim", "start", "fail", "retry", "claim", "snooze", "retry", "claim", "complete"];
    for (index, name) in script.into_iter().enumerate() {
        let back = begin.minus(Duration::from_secs(3600 * u64::try_from(index).unwrap()));
        for now in [back, Timestamp::MIN] {
            let step = Move { now, ..named(name, &life) };
            let after = take(&life, &step, &mut Seen::default()).unwrap();
            assert!(after.history.iter().all(|entry| entry.at >= begin), "{name} at {now}: {after:#?}");
        }
        life = life.then_at(named(name, &life).command, back);
    }
    assert_eq!(life.task.status.finished_at, Some(begin));
    assert_eq!(life.history.len(), 1 + script.len() + 2, "two starts were recorded with their finish");
}

/// A start is reported late, and by the worker's clock: it is kept between the claim and now.
#[test]
fn the_true_start_lies_between_the_claim_and_now() {
    let claimed = example(State::Claimed, None);
    let claim = claimed.task.status.updated_at;
    let (middle, now) = (claim.plus(Duration::from_secs(1)), claim.plus(Duration::from_secs(2)));
    for (said, kept) in
        [(None, now), (Some(middle), middle), (Some(Timestamp::MIN), claim), (Some(Timestamp::MAX), now)]
    {
        let token = claimed.token();
        let started = claimed.then_at(Command::Start { token: token.clone(), at: said }, now);
        assert_eq!(started.task.status.started_at, Some(kept));
        let finish = Command::Finish { token, outcome: completed(), started_at: said };
        let finished = claimed.then_at(finish, now);
        let times: Vec<Timestamp> = finished.history.iter().map(|entry| entry.at).collect();
        assert_eq!(times, [claim, claim, kept, now]);
        assert_eq!(finished.task.status.started_at, Some(kept));
    }
}

/// The history says who did what and what they had to say; a failure always has something to say.
#[test]
fn words_are_kept_with_who_said_them() {
    let said = |life: &Life| {
        let entry = life.history.last().unwrap();
        (entry.reason, entry.actor.clone(), entry.note.clone())
    };
    let (claimed, text) = (example(State::Claimed, Some(1)), |text: &str| Some(text.to_string()));
    assert_eq!(said(&claimed), (Reason::Claimed, text("a"), None));
    let dead = claimed.finish(failed(true));
    assert_eq!(said(&dead), (Reason::Failed, text("a"), text("broken")));
    assert_eq!(dead.task.status.error, text("broken"));
    let wordless = Outcome::Failed { error: String::new(), retryable: false, retry_after: None };
    assert!(claimed.finish(wordless).task.status.error.is_some_and(|error| !error.is_empty()));

    let expire = || Command::Expire { task: claimed.task.id, lease: 1 };
    let expired = claimed.then(Command::Start { token: claimed.token(), at: None }).then(expire());
    let (reason, _, note) = said(&expired);
    assert_eq!((reason, &note), (Reason::LeaseExpired, &expired.task.status.error));
    let (reason, _, note) = said(&claimed.then(expire()));
    assert!(reason == Reason::NotStarted && note.is_some_and(|note| note.contains("before the handler")));
    let again = Life::submitted(None, |_| ()).claim("a").finish(failed_now());
    assert_eq!(said(&again), (Reason::Failed, text("a"), text("broken")));
    let release = Command::Release { token: claimed.token(), note: text("shutting down") };
    assert_eq!(said(&claimed.then(release)), (Reason::Released, text("a"), text("shutting down")));
    let by = || By { actor: text("ada"), note: text("wrong address") };
    let cancelled = claimed.then(Command::Cancel { task: claimed.task.id, by: by() });
    assert_eq!(said(&cancelled), (Reason::Cancelled, text("ada"), text("wrong address")));
    let reopened = dead.then(Command::Retry { task: dead.task.id, force: true, by: by() });
    assert_eq!(said(&reopened), (Reason::Reopened, text("ada"), text("wrong address")));
}

/// A handler's own delay wins over the policy and its cap of a minute, up to a limit of its own (C58).
#[test]
fn a_delay_that_a_handler_asks_for_wins_up_to_its_limit() {
    let claimed = example(State::Claimed, None);
    let now = claimed.task.status.updated_at;
    let most = limits::RETRY_AFTER;
    for (asked, given) in [(Duration::ZERO, Duration::ZERO), (36 * LONG, 36 * LONG), (most * 2, most)] {
        let retry_after = Some(asked);
        let failed = Outcome::Failed { error: "busy".into(), retryable: true, retry_after };
        if asked.is_zero() {
            assert_eq!(claimed.finish(failed).task.status.state, State::Pending);
            continue;
        }
        for outcome in [failed, Outcome::Snoozed { delay: asked }] {
            assert_eq!(claimed.finish(outcome).task.status.due_at, Some(now.plus(given)));
        }
    }
}
