//! A second opinion: the design's prose about a task's life, written down again in the most naive way.
//!
//! Here a task is nothing but the list of things that happened to it. There is no row: whoever wants to know
//! the state, the attempts, the lease, the holder, the due time or the slot reads the whole list again.
//! Random commands with good, stale and foreign tokens, under a clock that also jumps back, are put to this
//! list and to [`transition`], and after each one both must have given the same answer and stand at the same
//! place.
//!
//! `WINDLASS_SEED=n cargo test -p windlass-core --test naive` repeats a run; a failure prints its seed.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, missing_docs)]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use windlass_core::{
    Before, By, Command, Json, Lane, Name, NewTask, Outcome, Start, State, Task, TaskId, Timestamp, Token,
    WorkerId, transition,
};

/// Something that happened, and when.
#[derive(Clone, Debug)]
struct Event {
    at: Timestamp,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Submitted {
        due: Timestamp,
    },
    GotSlot,
    Claimed {
        by: WorkerId,
    },
    Started,
    Completed,
    /// With what the clock showed, from which waits are counted: it may have been set back.
    Failed {
        retryable: bool,
        retry_after: Option<Duration>,
        clock: Timestamp,
    },
    Snoozed {
        delay: Duration,
        clock: Timestamp,
    },
    GaveUp,
    Released,
    Expired,
    /// Its holder fell silent without having said that the handler started, though it was to say so first.
    NeverStarted,
    Cancelled,
    Retried,
    StartedOver,
    PutOff {
        until: Timestamp,
    },
    Resolved,
    CameDue,
}

/// What was asked for, and all that has happened since.
#[derive(Clone, Debug)]
struct Story {
    max: Option<u32>,
    lane: bool,
    strict: bool,
    events: Vec<Event>,
}

/// A refusal, by the code that programs see.
type Refusal = &'static str;

impl Story {
    /// The story as it was before its last event.
    fn earlier(&self) -> Self {
        let mut events = self.events.clone();
        events.pop();
        Self { events, ..self.clone() }
    }

    /// The story up to and with its last event of substance: getting a slot changes nothing but the slot,
    /// being put off nothing but the moment that is waited for.
    fn of_substance(&self) -> Self {
        let is_slight = |what: &What| matches!(what, What::GotSlot | What::PutOff { .. });
        let events = self.events.iter().filter(|event| !is_slight(&event.what));
        Self { events: events.cloned().collect(), ..self.clone() }
    }

    fn last(&self) -> Event {
        self.of_substance().events.last().unwrap().clone()
    }

    /// Counted at the claim; given back by a release, a snooze, or a loss before the start; all of them by
    /// starting over.
    fn attempts(&self) -> u32 {
        let mut attempts = 0;
        for event in &self.events {
            match event.what {
                What::Claimed { .. } => attempts += 1,
                What::Released | What::NeverStarted | What::Snoozed { .. } => attempts -= 1,
                What::StartedOver => attempts = 0,
                _ => {}
            }
        }
        attempts
    }

    fn has_attempts_left(&self) -> bool {
        self.max.is_none_or(|max| self.attempts() < max)
    }

    fn state(&self) -> State {
        let last = self.last();
        match last.what {
            What::Submitted { due } if due > last.at => State::Scheduled,
            What::Submitted { .. }
            | What::Released
            | What::NeverStarted
            | What::Retried
            | What::StartedOver
            | What::CameDue => State::Pending,
            What::Claimed { .. } => State::Claimed,
            What::Started => State::Running,
            What::Completed => State::Completed,
            What::Failed { retryable: false, .. } => State::Failed,
            What::Failed { retry_after: Some(Duration::ZERO), .. } if self.has_attempts_left() => {
                State::Pending
            }
            What::Failed { .. } if self.has_attempts_left() => State::WaitingForRetry,
            What::Expired if self.has_attempts_left() => State::Pending,
            What::Failed { .. } | What::Expired => State::DeadLetter,
            What::Snoozed { .. } => State::Scheduled,
            What::GaveUp | What::Cancelled => State::Cancelled,
            What::Resolved => State::ResolvedManually,
            What::GotSlot | What::PutOff { .. } => panic!("these were left out"),
        }
    }

    fn is_held(&self) -> bool {
        matches!(self.state(), State::Claimed | State::Running)
    }

    fn is_over(&self) -> bool {
        use State::{Cancelled, Completed, DeadLetter, Failed, ResolvedManually};
        matches!(self.state(), Completed | Failed | DeadLetter | Cancelled | ResolvedManually)
    }

    /// Everyone who ever claimed it, in order: the n-th has lease n.
    fn claimers(&self) -> Vec<WorkerId> {
        let mut claimers = Vec::new();
        for event in &self.events {
            if let What::Claimed { by } = &event.what {
                claimers.push(by.clone());
            }
        }
        claimers
    }

    fn lease(&self) -> u32 {
        u32::try_from(self.claimers().len()).unwrap()
    }

    /// Who holds it or, when it is over, in whose hands it ended.
    fn worker(&self) -> Option<WorkerId> {
        let mut story = self.of_substance();
        while story.is_over() {
            story = story.earlier();
        }
        if story.is_held() { story.claimers().pop() } else { None }
    }

    fn claimed_at(&self) -> Option<Timestamp> {
        self.worker()?;
        let claims = self.events.iter().filter(|event| matches!(event.what, What::Claimed { .. }));
        claims.map(|event| event.at).next_back()
    }

    fn due(&self) -> Option<Timestamp> {
        let last = self.last();
        if let Some(Event { what: What::PutOff { until }, .. }) = self.events.last() {
            return Some(*until);
        }
        match (self.state(), last.what) {
            (State::Scheduled, What::Submitted { due }) => Some(due),
            (State::Scheduled, What::Snoozed { delay, clock }) => Some(clock.plus(delay)),
            (State::WaitingForRetry, What::Failed { retry_after, clock, .. }) => {
                Some(clock.plus(retry_after.unwrap_or(self.backoff())))
            }
            _ => None,
        }
    }

    /// One second, doubled for every attempt after the first, at most sixty.
    fn backoff(&self) -> Duration {
        let mut seconds = 1;
        for _ in 1..self.attempts() {
            seconds = 60.min(seconds * 2);
        }
        Duration::from_secs(seconds)
    }

    fn finished_at(&self) -> Option<Timestamp> {
        self.is_over().then(|| self.last().at)
    }

    /// Kept from when it was given until the task is over or, unless the lane is strict, waits for a moment.
    fn slot(&self) -> bool {
        let Some(event) = self.events.last() else { return false };
        if matches!(event.what, What::GotSlot) {
            return true;
        }
        // Also for no time at all.
        let waits = self.due().is_some() || matches!(event.what, What::Failed { .. });
        self.earlier().slot() && !self.is_over() && (self.strict || !waits)
    }

    /// Whether the clock says so or not, nothing happens before what has happened.
    fn not_before_the_last(&self, now: Timestamp) -> Timestamp {
        self.events.iter().map(|event| event.at).fold(now, Timestamp::max)
    }
}

/// What a command makes happen: nothing if it has happened before.
fn decide(story: &Story, step: &Step) -> Result<Vec<Event>, Refusal> {
    let at = story.not_before_the_last(step.now);
    let what = match &step.command {
        Command::Start { token, at: started } => return start(story, token, *started, at),
        Command::Finish { token, outcome, started_at } => {
            return finish(story, token, outcome, *started_at, (at, step.now));
        }
        Command::Report { token, .. } => may_speak(story, token).map(|_| None)?,
        Command::Claim { worker, .. } => claim(story, worker, step.paused)?,
        Command::Release { token, .. } => release(story, token)?,
        Command::Expire { lease, .. } => expire(story, *lease, step)?,
        Command::Promote { .. } => match story.due() {
            None => return Err("not_timed"),
            Some(due) if due > step.now => return Err("not_due"),
            Some(_) => Some(What::CameDue),
        },
        Command::Cancel { .. } if story.state() == State::Cancelled => None,
        Command::Cancel { .. } if story.is_over() => return Err(over(story)),
        Command::Cancel { .. } => Some(What::Cancelled),
        Command::Retry { force, .. } => retry(story, *force)?,
        Command::Postpone { .. } if story.state() != State::WaitingForRetry => return Err("not_retrying"),
        Command::Postpone { delay, .. } => {
            // Where the task is has not changed, and since when it is there neither.
            let (until, at) = (step.now.plus(*delay), story.last().at);
            let put_off = Event { at, what: What::PutOff { until } };
            return Ok(if story.due() == Some(until) { Vec::new() } else { vec![put_off] });
        }
        Command::Resolve { .. } => match story.state() {
            State::ResolvedManually => None,
            State::Completed | State::Cancelled => return Err(over(story)),
            _ => Some(What::Resolved),
        },
        // Only a step can be skipped; workflow.rs knows those.
        Command::Skip { .. } => return Err("not_step"),
        Command::Delete { .. } if story.is_over() => None,
        Command::Delete { .. } => return Err("not_final"),
    };
    Ok(what.map(|what| Event { at, what }).into_iter().collect())
}

fn claim(story: &Story, worker: &WorkerId, paused: bool) -> Result<Option<What>, Refusal> {
    if story.is_held() {
        return if story.worker().as_ref() == Some(worker) { Ok(None) } else { Err("already_claimed") };
    }
    if story.is_over() {
        return Err(over(story));
    }
    if story.due().is_some() {
        return Err("not_due");
    }
    if paused {
        return Err("queue_paused");
    }
    if story.lane && !story.slot() {
        return Err("lane_full");
    }
    Ok(Some(What::Claimed { by: worker.clone() }))
}

/// Given back once; after that the lease is lost, however it ended.
fn release(story: &Story, token: &Token) -> Result<Option<What>, Refusal> {
    may_speak(story, token)?;
    Ok(Some(What::Released))
}

fn expire(story: &Story, lease: u32, step: &Step) -> Result<Option<What>, Refusal> {
    if !story.is_held() || lease != story.lease() {
        return Err(no_such_claim(story, lease, false));
    }
    match step.alive_until {
        Some(until) if until > step.now => Err("lease_alive"),
        _ if story.state() == State::Claimed && (story.attempts() > 1 || !story.has_attempts_left()) => {
            Ok(Some(What::NeverStarted))
        }
        _ => Ok(Some(What::Expired)),
    }
}

/// An operator's wish to run it now, with the attempts that are left or, by force, with all of them.
fn retry(story: &Story, force: bool) -> Result<Option<What>, Refusal> {
    match story.state() {
        State::Pending => Ok(None),
        State::Completed | State::ResolvedManually => Err(over(story)),
        _ if force => Ok(Some(What::StartedOver)),
        _ if story.has_attempts_left() => Ok(Some(What::Retried)),
        _ => Err("max_attempts_reached"),
    }
}

/// The refusal of a task that is over.
fn over(story: &Story) -> Refusal {
    match story.state() {
        State::Completed => "task_completed",
        State::Failed | State::DeadLetter => "task_failed",
        _ => "task_settled",
    }
}

fn is_last_claimer(story: &Story, token: &Token) -> bool {
    token.lease > 0 && token.lease == story.lease() && story.claimers().last() == Some(&token.worker)
}

/// Only the holder may speak about a claim, and only while it holds it.
fn may_speak(story: &Story, token: &Token) -> Result<(), Refusal> {
    if story.is_held() && is_last_claimer(story, token) {
        return Ok(());
    }
    let is_stranger = story.is_held() && story.worker().as_ref() != Some(&token.worker);
    Err(no_such_claim(story, token.lease, is_stranger))
}

/// A claim that came to an end is lost. Of one that never was, all there is to say is how the task stands.
fn no_such_claim(story: &Story, lease: u32, is_stranger: bool) -> Refusal {
    let was_given_out = (1..=story.lease()).contains(&lease);
    let is_older = was_given_out && lease < story.lease();
    if is_older {
        "lease_lost"
    } else if story.is_over() {
        over(story)
    } else if is_stranger {
        "wrong_worker"
    } else if was_given_out || story.is_held() {
        "lease_lost"
    } else {
        "not_claimed"
    }
}

/// The handler started at some moment between its claim and now.
fn started(story: &Story, said: Option<Timestamp>, now: Timestamp) -> Event {
    let claim = story.last().at;
    Event { at: said.unwrap_or(now).min(now).max(claim), what: What::Started }
}

fn start(
    story: &Story,
    token: &Token,
    said: Option<Timestamp>,
    now: Timestamp,
) -> Result<Vec<Event>, Refusal> {
    may_speak(story, token)?;
    let is_repeat = story.state() == State::Running;
    Ok(if is_repeat { vec![] } else { vec![started(story, said, now)] })
}

fn finish(
    story: &Story,
    token: &Token,
    outcome: &Outcome,
    started_at: Option<Timestamp>,
    (at, clock): (Timestamp, Timestamp),
) -> Result<Vec<Event>, Refusal> {
    if is_last_claimer(story, token) && has_ended_so(story, outcome) {
        return Ok(vec![]);
    }
    may_speak(story, token)?;
    if matches!(outcome, Outcome::Skipped { .. } | Outcome::Expanded { .. }) {
        return Err("not_step");
    }
    let mut events = Vec::new();
    if story.state() == State::Claimed {
        events.push(started(story, started_at, at));
    }
    let what = match outcome {
        Outcome::Completed { .. } => What::Completed,
        Outcome::Failed { retryable, retry_after, .. } => {
            What::Failed { retryable: *retryable, retry_after: *retry_after, clock }
        }
        Outcome::Snoozed { delay } => What::Snoozed { delay: *delay, clock },
        Outcome::Cancelled { .. } => What::GaveUp,
        Outcome::Skipped { .. } | Outcome::Expanded { .. } => panic!("refused above"),
    };
    events.push(Event { at, what });
    Ok(events)
}

/// Whether the task still rests where this outcome of its last claim has put it, or would. Failing what has
/// failed is fine (4.5), whether its handler or its silence made it so; so is giving up what was cancelled
/// in the handler's hands.
fn has_ended_so(story: &Story, outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Completed { .. } => story.state() == State::Completed,
        Outcome::Failed { retryable, retry_after, .. } => match story.state() {
            State::Failed | State::DeadLetter => true,
            State::WaitingForRetry => *retryable,
            State::Pending if matches!(story.last().what, What::Failed { .. }) => {
                *retryable && *retry_after == Some(Duration::ZERO)
            }
            _ => false,
        },
        Outcome::Snoozed { .. } => matches!(story.last().what, What::Snoozed { .. }),
        Outcome::Cancelled { .. } => story.state() == State::Cancelled && story.worker().is_some(),
        Outcome::Skipped { .. } | Outcome::Expanded { .. } => false,
    }
}

/// A command for both sides, and what surrounds it.
#[derive(Clone, Debug)]
struct Step {
    command: Command,
    paused: bool,
    alive_until: Option<Timestamp>,
    now: Timestamp,
}

/// The one liberty that is left to core. Once nobody holds a task its row does not name its last holder, so
/// core believes the lease alone and may take a late finish for a repeat: accepted, and nothing changes. The
/// list remembers who it was and how it ended, and refuses.
fn may_be_taken_for_a_repeat(task: &Task, command: &Command) -> bool {
    let status = &task.status;
    let Command::Finish { token, outcome, .. } = command else { return false };
    // A list that was empty, or is done, has completed its step, and one whose lane is held above has failed
    // it; nothing says that this task had no list.
    if matches!(outcome, Outcome::Expanded { .. }) {
        let is_holder = status.worker.as_ref() == Some(&token.worker);
        let has_ended = matches!(status.state, State::Completed | State::Failed);
        return has_ended && is_holder && token.lease == status.lease;
    }
    let looks_alike = match outcome {
        Outcome::Completed { .. } => false,
        Outcome::Failed { retryable, retry_after, .. } => {
            let is_retried = status.state == State::Pending && *retry_after == Some(Duration::ZERO);
            *retryable && (status.state == State::WaitingForRetry || is_retried)
        }
        Outcome::Snoozed { .. } => status.state == State::Scheduled,
        Outcome::Cancelled { .. } => status.state == State::Cancelled,
        Outcome::Skipped { .. } | Outcome::Expanded { .. } => false,
    };
    looks_alike && status.worker.is_none() && token.lease > 0 && token.lease == status.lease
}

/// How often each answer was given, to see that the run was worth something.
#[derive(Default)]
struct Tally {
    commands: usize,
    answers: BTreeMap<&'static str, usize>,
    states: BTreeSet<State>,
}

impl Tally {
    fn count(&mut self, answer: &'static str, state: State) {
        self.commands += 1;
        *self.answers.entry(answer).or_default() += 1;
        self.states.insert(state);
    }
}

/// Puts one command to both sides and compares their answers; carries out what they agree on.
fn compare(task: &mut Task, story: &mut Story, step: &Step, tally: &mut Tally) -> Result<(), TestCaseError> {
    let before = Before { paused: step.paused, alive_until: step.alive_until, ..Before::of(task) };
    let core = transition(&before, &step.command, step.now);
    let naive = decide(story, step);
    let answer = match (&core, naive) {
        (Ok(changes), Ok(events)) => {
            prop_assert_eq!(changes.tasks.is_empty(), events.is_empty(), "{:?}\n{:#?}", step, story);
            let is_delete = matches!(step.command, Command::Delete { .. });
            prop_assert_eq!(changes.deleted.is_empty(), !is_delete);
            story.events.extend(events);
            if changes.tasks.is_empty() { "nothing to do" } else { "accepted" }
        }
        (Err(rejected), Err(refusal)) => {
            prop_assert_eq!(rejected.code(), refusal, "{:?}\n{:#?}", step, story);
            refusal
        }
        (Ok(changes), Err(_))
            if changes.tasks.is_empty() && may_be_taken_for_a_repeat(task, &step.command) =>
        {
            "taken for a repeat"
        }
        (core, naive) => {
            return Err(TestCaseError::fail(format!("{step:?}: {core:?}, but {naive:?} of {story:#?}")));
        }
    };
    if let Ok(changes) = core
        && let Some(change) = changes.tasks.into_iter().next()
    {
        task.status = change.after;
    }
    tally.count(answer, story.state());
    same_place(task, story, step)
}

fn same_place(task: &Task, story: &Story, step: &Step) -> Result<(), TestCaseError> {
    let status = &task.status;
    let row = (status.state, status.attempt, status.lease, status.worker.clone(), status.slot);
    let list = (story.state(), story.attempts(), story.lease(), story.worker(), story.slot());
    prop_assert_eq!(row, list, "after {:?}\n{:#?}", step, story);
    let row = (status.due_at, status.claimed_at, status.finished_at, status.updated_at);
    let list = (story.due(), story.claimed_at(), story.finished_at(), story.last().at);
    prop_assert_eq!(row, list, "after {:?}\n{:#?}", step, story);
    let has_error = matches!(story.state(), State::WaitingForRetry | State::Failed | State::DeadLetter);
    prop_assert_eq!(status.error.is_some(), has_error, "after {:?}\n{:#?}", step, story);
    Ok(())
}

/// Which worker and which lease a random command names, in relation to the task it will meet.
#[derive(Clone, Copy, Debug)]
enum Proof {
    Right,
    Older,
    Never,
    Zero,
    Stranger,
}

/// A random command before it meets a task.
#[derive(Clone, Debug)]
enum Wish {
    Claim { by: u8, paused: bool },
    Start { proof: Proof, ago: Option<i8> },
    Finish { proof: Proof, outcome: Outcome, ago: Option<i8> },
    Release { proof: Proof },
    Expire { proof: Proof, alive_for: Option<i8> },
    Cancel,
    Retry { force: bool },
    Postpone { delay: u8 },
    Resolve,
    Skip,
    Promote,
    Delete,
    GiveSlot,
}

fn worker(number: u8) -> WorkerId {
    WorkerId::new(format!("w{number}")).unwrap()
}

/// `now`, moved by a number of seconds in either direction.
fn moved(now: Timestamp, seconds: i8) -> Timestamp {
    let by = Duration::from_secs(u64::from(seconds.unsigned_abs()));
    if seconds < 0 { now.minus(by) } else { now.plus(by) }
}

impl Wish {
    fn meet(self, task: &Task, story: &Story, now: Timestamp) -> Option<Step> {
        let (id, by) = (task.id, By::default());
        let token = |proof| token(id, story, proof);
        let (mut is_paused, mut alive_until) = (false, None);
        let command = match self {
            Self::Claim { by, paused } => {
                is_paused = paused;
                Command::Claim { task: id, worker: worker(by) }
            }
            Self::Start { proof, ago } => {
                Command::Start { token: token(proof), at: ago.map(|ago| moved(now, ago)) }
            }
            Self::Finish { proof, outcome, ago } => {
                let started_at = ago.map(|ago| moved(now, ago));
                Command::Finish { token: token(proof), outcome, started_at }
            }
            Self::Release { proof } => Command::Release { token: token(proof), note: None },
            Self::Expire { proof, alive_for } => {
                alive_until = alive_for.map(|alive_for| moved(now, alive_for));
                Command::Expire { task: id, lease: token(proof).lease }
            }
            Self::Cancel => Command::Cancel { task: id, by },
            Self::Retry { force } => Command::Retry { task: id, force, by },
            Self::Postpone { delay } => {
                Command::Postpone { task: id, delay: Duration::from_secs(u64::from(delay)) }
            }
            Self::Resolve => Command::Resolve { task: id, result: None, by },
            Self::Skip => Command::Skip { task: id, by },
            Self::Promote => Command::Promote { task: id },
            Self::Delete => Command::Delete { task: id },
            Self::GiveSlot => return None,
        };
        Some(Step { command, paused: is_paused, alive_until, now })
    }
}

fn token(task: TaskId, story: &Story, proof: Proof) -> Token {
    let last = story.lease();
    let holder = story.claimers().last().cloned().unwrap_or(worker(0));
    let (lease, worker) = match proof {
        Proof::Right => (last, holder),
        Proof::Older => (last.saturating_sub(1), holder),
        Proof::Never => (last + 1, holder),
        Proof::Zero => (0, holder),
        Proof::Stranger => (last, worker(9)),
    };
    Token { task, lease, worker }
}

fn proofs() -> impl Strategy<Value = Proof> {
    prop_oneof![
        12 => Just(Proof::Right),
        1 => Just(Proof::Older),
        1 => Just(Proof::Never),
        1 => Just(Proof::Zero),
        1 => Just(Proof::Stranger),
    ]
}

fn outcomes() -> impl Strategy<Value = Outcome> {
    let seconds = || (0..30_u64).prop_map(Duration::from_secs);
    let failed = ("[a-z]{0,3}", prop::bool::weighted(0.8), prop::option::weighted(0.3, seconds()))
        .prop_map(|(error, retryable, retry_after)| Outcome::Failed { error, retryable, retry_after });
    prop_oneof![
        2 => Just(Outcome::Completed { result: Json::default() }),
        6 => failed,
        3 => seconds().prop_map(|delay| Outcome::Snoozed { delay }),
        1 => "[a-z]{0,3}".prop_map(|note| Outcome::Cancelled { note }),
        1 => "[a-z]{0,3}".prop_map(|note| Outcome::Skipped { note }),
        1 => (0..3_usize).prop_map(|n| Outcome::Expanded { items: vec![Json::default(); n], max_parallel: None, lanes: Vec::new() }),
    ]
}

/// Mostly what moves a task on; what ends it is rarer, or every life would be short.
fn wishes() -> impl Strategy<Value = Wish> {
    let seconds = || prop::option::of(-40..40_i8);
    prop_oneof![
        8 => (0..3_u8, prop::bool::weighted(0.1)).prop_map(|(by, paused)| Wish::Claim { by, paused }),
        3 => (proofs(), seconds()).prop_map(|(proof, ago)| Wish::Start { proof, ago }),
        6 => (proofs(), outcomes(), seconds())
            .prop_map(|(proof, outcome, ago)| Wish::Finish { proof, outcome, ago }),
        2 => proofs().prop_map(|proof| Wish::Release { proof }),
        3 => (proofs(), seconds()).prop_map(|(proof, alive_for)| Wish::Expire { proof, alive_for }),
        1 => Just(Wish::Cancel),
        5 => prop::bool::ANY.prop_map(|force| Wish::Retry { force }),
        1 => prop::bool::weighted(0.5).prop_map(|really| if really { Wish::Resolve } else { Wish::Delete }),
        1 => Just(Wish::Skip),
        3 => (0..30_u8).prop_map(|delay| Wish::Postpone { delay }),
        4 => Just(Wish::Promote),
        5 => Just(Wish::GiveSlot),
    ]
}

/// Seconds by which the clock moves before a command; now and then it is set back.
fn ticks() -> impl Strategy<Value = i8> {
    prop_oneof![3 => Just(0), 6 => 0..5_i8, 2 => 20..100_i8, 2 => -60..0_i8]
}

/// Attempts, lane (none, plain, strict) and delay of a random task.
type Order = (Option<u32>, Option<bool>, u8);

fn orders() -> impl Strategy<Value = Order> {
    let max = prop_oneof![Just(None), Just(Some(1)), Just(Some(2)), Just(Some(4))];
    (max, prop::option::of(any::<bool>()), prop_oneof![Just(0), 1..20_u8])
}

/// The same task for both sides.
fn submit((max, strict, delay): Order, now: Timestamp) -> (Task, Story) {
    let id = TaskId::from_bytes([3; 16]);
    let mut new = NewTask::new(id, Name::kind("naive").unwrap(), Json::default());
    let lane = Lane::new("door", 1).unwrap();
    new.max_attempts = max.and_then(NonZeroU32::new);
    new.lane = strict.map(|strict| if strict { lane.strict() } else { lane });
    let delay = Duration::from_secs(u64::from(delay));
    new.start = Start::After(delay);
    let what = What::Submitted { due: now.plus(delay) };
    let events = vec![Event { at: now, what }];
    let story = Story { max, lane: strict.is_some(), strict: strict == Some(true), events };
    (new.admit(now).0, story)
}

/// One random life on both sides.
fn live(order: Order, wishes: Vec<(i8, Wish)>, tally: &mut Tally) -> Result<(), TestCaseError> {
    let mut now = Timestamp::from_micros(1_800_000_000_000_000);
    let (mut task, mut story) = submit(order, now);
    for (tick, wish) in wishes {
        now = moved(now, tick);
        match wish.meet(&task, &story, now) {
            Some(step) => compare(&mut task, &mut story, &step, tally)?,
            None if story.lane && story.state() == State::Pending && !story.slot() => {
                let at = story.last().at;
                story.events.push(Event { at, what: What::GotSlot });
                task.status.slot = true;
            }
            None => {}
        }
    }
    Ok(())
}

/// Taken from `WINDLASS_SEED`, so that a failure can be repeated, or from the clock.
fn seed() -> u64 {
    let given = std::env::var("WINDLASS_SEED").ok().map(|text| text.parse().unwrap());
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() % 1_000_000_000;
    given.unwrap_or_else(|| u64::try_from(clock()).unwrap())
}

#[test]
fn the_row_and_the_list_of_what_happened_never_disagree() {
    const LIVES: u32 = 2_000;
    let seed = seed();
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let config = Config { cases: LIVES, failure_persistence: None, ..Config::default() };
    let tally = RefCell::new(Tally::default());
    let lives = (orders(), vec((ticks(), wishes()), 25));
    let outcome = TestRunner::new_with_rng(config, rng)
        .run(&lives, |(order, wishes)| live(order, wishes, &mut tally.borrow_mut()));
    if let Err(error) = outcome {
        panic!("WINDLASS_SEED={seed}: {error}");
    }
    let Tally { commands, answers, states } = tally.into_inner();
    println!("WINDLASS_SEED={seed}: {commands} commands in {LIVES} lives: {answers:?}");
    assert!(commands >= 20_000, "only {commands} commands");
    assert!(answers["not_step"] > 100, "too few were for steps only: {answers:?}");
    assert!(answers["accepted"] * 6 > commands, "too few were accepted: {answers:?}");
    assert_eq!(states.len(), State::ALL.len() - 2, "waiting and skipped need a workflow: {states:?}");
}
