//! The worker's loop: claim, start, report.
//!
//! One turn with the store is in progress at a time (two, if the store can make use of that and there is
//! enough to say). While it is, handlers end and what they have to say gathers; the next turn tells all of it
//! and claims anew, in one commit. So a busy worker batches by itself and an idle one adds no delay. Nothing
//! here ticks: the loop wakes when a handler ends, when the store rings, and at moments that something waits
//! for.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use windlass_core::{Command, Lease, Rejected, State, TaskId, Token, limits};
use windlass_store::{Claimed, Error, Rings, Turn};

use super::asking::{Answer, Asked, Asking, answered, holdings};
use super::attempt::{self, Ended, LastWord, Verdict};
use super::fence::Hold;
use super::outbox::{Backoff, Outbox};
use super::setup::{ReportResult, Setup, Shared};
use super::waiting::Waiting;
use crate::context::Context;
use crate::observe::count;
use crate::stop::StopReason;

/// A handler that has run this long is marked as running; one that ends sooner is never written down twice.
const MARK_AFTER: Duration = Duration::from_millis(250);

/// How long what handlers tell is gathered.
const TELL_AFTER: Duration = Duration::from_millis(250);

/// A claim that has waited this long for a handler to end is given back: the others may be idle.
const WAIT_AT_MOST: Duration = Duration::from_secs(1);

/// How long what there is to say waits for more, while claims still wait for a handler.
const SAY_AFTER: Duration = Duration::from_millis(5);

/// When to look a second time for claims whose answer was lost: the first look may have been too early. Each
/// further look waits twice as long as the one before, for as long as the worker lives.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// How long a worker that is to stop tries to tell the store what it has to say.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(10);

pub(super) struct Driver {
    shared: Arc<Shared>,
    rings: watch::Receiver<Rings>,
    heard: Rings,
    ended: mpsc::UnboundedReceiver<Ended>,
    end: mpsc::UnboundedSender<Ended>,
    waiting: VecDeque<Waiting>,
    /// Claims that have a free handler, and whose start is being recorded before it runs
    /// ([`Task::must_record_start`](windlass_core::Task::must_record_start)).
    starting: BTreeMap<(TaskId, Lease), Waiting>,
    /// By claim: a task that was lost may be claimed again while its handler still runs.
    running: BTreeMap<(TaskId, Lease), Context>,
    /// Handlers that were not marked as running yet, oldest first.
    unmarked: VecDeque<(Instant, Token)>,
    outbox: Outbox,
    backoff: Backoff,
    /// Whether there may be something to claim.
    hungry: bool,
    /// Whether nothing but time made it hungry.
    hungry_by_poll: bool,
    next_poll: Instant,
    /// Quick handlers that ended since the last turn began: how many claims the next turn takes in advance.
    ended_lately: usize,
    /// Whether a handler was idle when the last turn was answered.
    ran_dry: bool,
    tell_at: Option<Instant>,
    /// Tasks that turns in progress speak of: nothing else is said about them meanwhile, for it might be
    /// heard first.
    spoken_of: BTreeSet<TaskId>,
    /// Claims that turns in progress may bring.
    claims_under_way: usize,
    /// When to look for claims that an answer which never came may have given, and how long to wait until the
    /// next look.
    look_for_lost: Option<(Instant, Duration)>,
    stopping_since: Option<Instant>,
    told_to_stop: bool,
    /// When the last handler ended.
    last_end: Instant,
    /// Whether the store did not answer the last question.
    is_away: bool,
    /// Whether a heartbeat was asked for because the fence is closed.
    wants_pulse: bool,
}

impl Driver {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let rings = shared.store().watch();
        let heard = *rings.borrow();
        let (end, ended) = mpsc::unbounded_channel();
        Self {
            rings,
            heard,
            ended,
            end,
            waiting: VecDeque::new(),
            starting: BTreeMap::new(),
            running: BTreeMap::new(),
            unmarked: VecDeque::new(),
            outbox: Outbox::default(),
            backoff: Backoff::default(),
            hungry: true,
            hungry_by_poll: false,
            next_poll: Instant::now() + shared.setup.poll,
            ended_lately: 0,
            ran_dry: false,
            tell_at: None,
            spoken_of: BTreeSet::new(),
            claims_under_way: 0,
            look_for_lost: None,
            stopping_since: None,
            told_to_stop: false,
            last_end: Instant::now(),
            is_away: false,
            wants_pulse: false,
            shared,
        }
    }

    /// Runs until `stop` and everything that is to be said then has been said; false if it could not be said
    /// in time. An error means that the store cannot be used any more.
    pub(super) async fn run(mut self, stop: CancellationToken) -> Result<bool, Error> {
        let mut asking: Vec<Asking> = Vec::new();
        loop {
            self.start_waiting();
            asking.extend(self.ask(&asking));
            if asking.is_empty() && self.is_over() {
                return Ok(true);
            }
            if self.is_too_late() {
                let (worker, reports) = (&self.shared.setup.id, self.outbox.len());
                warn!(%worker, reports, "the store does not answer: what was not reported is run again by others");
                return Ok(false);
            }
            metrics::gauge!("windlass_worker_pool_active").set(count(self.running.len()));
            let wake = self.next_wake();
            tokio::select! {
                biased;
                (at, answer) = answered(&mut asking, self.stopping_since) => {
                    let Asking { asked, .. } = asking.remove(at);
                    if let Err(error) = self.hear(asked, answer) {
                        self.shared.held.stop_all(StopReason::Shutdown);
                        return Err(error);
                    }
                }
                Some(ended) = self.ended.recv() => {
                    self.note_end(ended);
                    while let Ok(ended) = self.ended.try_recv() {
                        self.note_end(ended);
                    }
                }
                () = stop.cancelled(), if self.stopping_since.is_none() => self.begin_to_stop(),
                () = self.shared.claim_wanted.notified() => self.hungry = true,
                () = self.shared.notes_written.notified() => {
                    self.tell_at.get_or_insert_with(|| Instant::now() + TELL_AFTER);
                }
                Ok(()) = self.rings.changed() => self.note_ring(),
                () = sleep_until(wake) => self.note_time(),
            }
        }
    }

    fn is_over(&self) -> bool {
        let all_said = self.busy() == 0 && self.waiting.is_empty() && self.outbox.is_empty();
        let all_found = self.look_for_lost.is_none_or(|(at, _)| at > Instant::now());
        self.stopping_since.is_some() && all_said && all_found
    }

    /// Whether the store has not heard the last words for so long that it never will.
    fn is_too_late(&self) -> bool {
        self.give_up_at().is_some_and(|at| at <= Instant::now())
    }

    /// When a worker that is to stop tries no longer to tell the store what it has to say: not before its
    /// grace period is over, and not before it has tried for a while.
    fn give_up_at(&self) -> Option<Instant> {
        let (Setup { grace, patience, .. }, since) = (&self.shared.setup, self.stopping_since?);
        let handlers_end =
            if self.running.is_empty() { self.last_end.max(since) } else { since + *grace + *patience };
        Some((handlers_end + LAST_WORDS).max(since + *grace))
    }

    /// Starts what has been claimed, as far as handlers are free.
    fn start_waiting(&mut self) {
        while self.busy() < self.shared.setup.pool {
            let Some(waiting) = self.waiting.pop_front() else { return };
            if !self.may_start(&waiting) {
                continue;
            }
            let (id, lease) = waiting.key();
            if waiting.claimed.task.must_record_start() {
                self.outbox.push(Command::Start { token: self.token(id, lease), at: None });
                self.starting.insert((id, lease), waiting);
            } else {
                let token = self.start(waiting);
                self.unmarked.push_back((Instant::now(), token));
            }
        }
    }

    /// Handlers that run or are about to.
    fn busy(&self) -> usize {
        self.running.len() + self.starting.len()
    }

    /// Whether a claim may be started; if not, it is given back.
    fn may_start(&mut self, waiting: &Waiting) -> bool {
        let reason = waiting.must_not_start();
        if let Some(reason) = reason {
            self.give_back(waiting, &format!("it was not started: {reason:?}"));
        }
        reason.is_none()
    }

    /// The start of a claim is recorded, or refused because the claim is lost.
    fn hear_started(&mut self, waiting: Waiting, is_recorded: bool) {
        let (task, lease) = waiting.key();
        if !is_recorded {
            self.shared.held.remove(task, lease);
        } else if self.stopping_since.is_some() {
            self.give_back(&waiting, "the worker shuts down");
        } else if self.may_start(&waiting) {
            self.start(waiting);
        }
    }

    fn start(&mut self, waiting: Waiting) -> Token {
        let (task, lease) = waiting.key();
        let (setup, token) = (&self.shared.setup, self.token(task, lease));
        let context = Context::new(waiting.attempt(&self.shared));
        self.running.insert((token.task, token.lease), context.clone());
        let last_word = LastWord::new(self.end.clone(), &token);
        let (handlers, patience) = (setup.handlers.clone(), setup.patience);
        tokio::spawn(async move { last_word.say(attempt::run(handlers, context, patience).await) });
        token
    }

    /// Gives back a claim that was not started.
    fn give_back(&mut self, waiting: &Waiting, note: &str) {
        let (task, lease) = waiting.key();
        self.shared.held.remove(task, lease);
        if !matches!(waiting.stop.reason(), Some(StopReason::Cancelled | StopReason::LeaseLost)) {
            let token = self.token(task, lease);
            self.outbox.push(Command::Release { token, note: Some(note.into()) });
        }
    }

    fn token(&self, task: TaskId, lease: Lease) -> Token {
        Token { task, lease, worker: self.shared.setup.id.clone() }
    }

    /// The next question to the store, if there is one and the store is to be asked now.
    fn ask(&mut self, asking: &[Asking]) -> Option<Asking> {
        if self.backoff.until().is_some() || !self.may_ask(asking) {
            return None;
        }
        if self.look_for_lost.is_some_and(|(at, _)| at <= Instant::now()) {
            // What a turn in progress brings is not lost.
            if !asking.is_empty() {
                return None;
            }
            let shared = self.shared.clone();
            let answer = async move { Answer::Holdings(holdings(&shared).await) };
            return Some(Asking::new(Asked::Holdings, answer));
        }
        let room = if self.is_fenced() { 0 } else { self.room() };
        if self.outbox.is_empty() && !(self.hungry && room > 0) {
            return None;
        }
        // What waits for a handler will soon have more to say: one commit for all of it.
        let is_starting = !self.starting.is_empty();
        if !is_starting
            && self.waiting.len() > self.outbox.len()
            && self.say_at().is_some_and(|at| at > Instant::now())
        {
            return None;
        }
        let (commands, limit) = (self.outbox.take(&self.spoken_of), room);
        if commands.is_empty() && (limit == 0 || !self.hungry) {
            return None;
        }
        self.spoken_of.extend(commands.iter().map(Command::task));
        self.claims_under_way += limit;
        if limit > 0 {
            self.hungry = false;
            self.next_poll = Instant::now() + self.shared.setup.poll;
        }
        self.ended_lately = 0;
        let claim = (limit > 0).then(|| self.shared.setup.claim(limit));
        let (shared, turn) = (self.shared.clone(), Turn { commands: commands.clone(), claim, term: None });
        let at = self.shared.fence.now();
        let answer = async move { Answer::Turned(shared.store().turn(turn).await) };
        Some(Asking::new(Asked::Turn { commands, limit, at }, answer))
    }

    /// Whether nothing may be started, and so nothing need be claimed, until a heartbeat is confirmed. Asks
    /// for one.
    fn is_fenced(&mut self) -> bool {
        let is_closed = self.shared.is_closed.load(Ordering::Relaxed);
        let is_fenced = !is_closed && !self.shared.fence.is_open();
        if is_fenced && !self.wants_pulse {
            self.shared.pulse_wanted.notify_one();
        }
        self.wants_pulse = is_fenced;
        is_fenced
    }

    /// Whether a question may be asked beside those that are not answered yet: a turn, if there is about as
    /// much to say as the other says.
    fn may_ask(&self, asking: &[Asking]) -> bool {
        let said = |asking: &Asking| match &asking.asked {
            Asked::Turn { commands, .. } => Some(commands.len()),
            Asked::Holdings => None,
        };
        let most = self.shared.store().turns_at_once().max(1);
        let is_worth_it = |said: usize| said > 0 && self.outbox.len() * 2 >= said;
        asking.is_empty()
            || (asking.len() < most && asking.iter().all(|one| said(one).is_some_and(is_worth_it)))
    }

    /// When what there is to say is said at the latest.
    fn say_at(&self) -> Option<Instant> {
        self.outbox.since().map(|since| since + SAY_AFTER)
    }

    /// How much to claim: what can run now, and in advance what the last turn has shown to be run off during
    /// a turn; more, if that was not enough.
    fn room(&self) -> usize {
        if self.stopping_since.is_some() {
            return 0;
        }
        let Setup { pool, buffer, .. } = &self.shared.setup;
        let (free, under_way) = (pool - self.busy(), self.claims_under_way);
        let waiting = self.waiting.len();
        let in_advance =
            if self.ran_dry { self.ended_lately * 2 } else { self.ended_lately.saturating_sub(waiting) };
        // Half of the buffer is run off while the other half is on its way.
        let in_advance = in_advance.min(buffer.div_ceil(2)).min(buffer.saturating_sub(waiting + under_way));
        (free.saturating_sub(under_way) + in_advance).min(limits::BATCH)
    }

    fn hear(&mut self, asked: Asked, answer: Answer) -> Result<(), Error> {
        if let Asked::Turn { commands, limit, .. } = &asked {
            for command in commands {
                self.spoken_of.remove(&command.task());
            }
            self.claims_under_way -= limit;
        }
        let error = match (asked, answer) {
            (Asked::Turn { commands, limit, at }, Answer::Turned(Ok(turned))) => {
                self.is_back();
                if turned.claimed.is_ok() {
                    self.backoff.succeeded();
                }
                self.hear_receipts(commands, turned.receipts);
                self.hear_claimed(turned.claimed, limit, at);
                return Ok(());
            }
            (Asked::Holdings, Answer::Holdings(Ok(holdings))) => {
                self.is_back();
                self.backoff.succeeded();
                self.look_for_lost =
                    self.look_for_lost.map(|(_, wait)| (Instant::now() + wait, wait.saturating_mul(2)));
                self.release_unknown(holdings);
                return Ok(());
            }
            (Asked::Turn { commands, .. }, Answer::Turned(Err(error))) => {
                self.outbox.put_back(commands);
                self.hungry = true;
                if matches!(error, Error::Unknown(_)) {
                    self.look_for_lost = Some((Instant::now(), LOOK_AGAIN));
                }
                error
            }
            (_, Answer::Holdings(Err(error))) => error,
            (Asked::Turn { .. }, Answer::Holdings(Ok(_))) | (Asked::Holdings, Answer::Turned(_)) => {
                return Ok(());
            }
        };
        match error {
            Error::Unavailable(_) | Error::Unknown(_) => {
                self.backoff.failed();
                let worker = &self.shared.setup.id;
                // Once: it goes on until the store is back.
                if std::mem::replace(&mut self.is_away, true) {
                    debug!(%error, %worker, "the store still does not answer");
                } else {
                    warn!(%error, %worker, "the store does not answer; the worker tries again until it does");
                }
                Ok(())
            }
            // A server does not let a worker in that the store has forgotten. The heartbeat registers it
            // again; then it says all of it.
            Error::Rejected(rejected @ Rejected::InvalidWorker { .. }) => {
                warn!(%rejected, "the worker was forgotten");
                self.backoff.failed();
                self.shared.pulse_wanted.notify_one();
                Ok(())
            }
            error => Err(error),
        }
    }

    fn is_back(&mut self) {
        if std::mem::take(&mut self.is_away) {
            info!(worker = %self.shared.setup.id, "the store answers again");
        }
    }

    fn hear_receipts(
        &mut self,
        commands: Vec<Command>,
        receipts: Vec<Result<windlass_store::Receipt, Rejected>>,
    ) {
        for (command, receipt) in commands.into_iter().zip(receipts) {
            let result = receipt.map_or_else(ReportResult::Refused, |_| ReportResult::Accepted);
            if let Command::Finish { token, .. } | Command::Release { token, .. } = &command {
                self.shared.setup.reported(token.task, token.lease, &result);
            }
            if let Command::Start { token, .. } = &command
                && let Some(waiting) = self.starting.remove(&(token.task, token.lease))
            {
                self.hear_started(waiting, result == ReportResult::Accepted);
                continue;
            }
            let ReportResult::Refused(rejected) = result else { continue };
            match command {
                Command::Start { token, .. } | Command::Report { token, .. } => {
                    debug!(task = %token.task, %rejected, "the lease is lost");
                    let reason = match rejected {
                        Rejected::Settled { state: State::Cancelled, .. } => StopReason::Cancelled,
                        _ => StopReason::LeaseLost,
                    };
                    self.shared.held.stop(token.task, token.lease, reason);
                }
                Command::Release { token, .. } => {
                    debug!(task = %token.task, %rejected, "what was to be given back is another's by now");
                }
                command => warn!(task = %command.task(), %rejected, "a report was refused"),
            }
        }
    }

    fn hear_claimed(&mut self, claimed: Result<Vec<Claimed>, Rejected>, limit: usize, asked: Duration) {
        let claimed = match claimed {
            Ok(claimed) => claimed,
            Err(rejected) => {
                warn!(%rejected, "no claim");
                self.hungry = true;
                self.backoff.failed();
                self.shared.pulse_wanted.notify_one();
                return;
            }
        };
        if limit > 0 && claimed.len() == limit {
            self.hungry = true;
        }
        if std::mem::take(&mut self.hungry_by_poll) && !claimed.is_empty() {
            metrics::counter!("windlass_missed_wakeups_total").increment(1);
        }
        self.ran_dry = self.waiting.is_empty() && self.busy() < self.shared.setup.pool;
        let received = Instant::now();
        for claimed in claimed {
            let stop = self.shared.held.add(claimed.task.id, claimed.task.status.lease);
            let hold = Hold { fence: self.shared.fence.clone(), asked };
            self.waiting.push_back(Waiting { claimed, stop, received, hold });
        }
        if self.stopping_since.is_some() {
            self.give_all_back();
        }
    }

    /// Releases claims that the store knows of and this worker does not: the answer that gave them was lost.
    fn release_unknown(&mut self, holdings: Vec<(TaskId, Lease)>) {
        let known: BTreeMap<_, _> = self.shared.held.list().into_iter().collect();
        for (task, lease) in holdings {
            let token = self.token(task, lease);
            if known.get(&task) != Some(&lease) && !self.outbox.speaks_of(&token) {
                let note = Some("the answer that gave it was lost".into());
                self.outbox.push(Command::Release { token, note });
            }
        }
    }

    fn note_end(&mut self, ended: Ended) {
        let Ended { task, lease, report, verdict } = ended;
        let context = self.running.remove(&(task, lease));
        self.shared.held.remove(task, lease);
        self.last_end = Instant::now();
        let is_quick = |context: &Context| context.attempt_row().started.elapsed() < MARK_AFTER;
        self.ended_lately += usize::from(context.as_ref().is_some_and(is_quick));
        let token = self.token(task, lease);
        if matches!(verdict, Verdict::Nothing) {
            self.shared.setup.reported(task, lease, &ReportResult::Dropped);
            return;
        }
        if let Some(report) = report {
            self.outbox.push(Command::Report { token: token.clone(), report });
        }
        let started_at = context.map(|context| {
            let attempt = context.attempt_row();
            attempt.store_time(attempt.started)
        });
        self.outbox.push(match verdict {
            Verdict::Finished(outcome) => Command::Finish { token, outcome, started_at },
            Verdict::Interrupted(reason) => {
                Command::Release { token, note: Some(format!("the handler was stopped: {reason:?}")) }
            }
            Verdict::Nothing => return,
        });
    }

    fn note_ring(&mut self) {
        let rings = *self.rings.borrow_and_update();
        if rings.claimable != self.heard.claimable {
            (self.hungry, self.hungry_by_poll) = (true, false);
        }
        if rings.revoked != self.heard.revoked && !(self.busy() == 0 && self.waiting.is_empty()) {
            self.shared.look_wanted.notify_one();
        }
        self.heard = rings;
    }

    fn begin_to_stop(&mut self) {
        self.stopping_since = Some(Instant::now());
        self.give_all_back();
    }

    fn give_all_back(&mut self) {
        while let Some(waiting) = self.waiting.pop_front() {
            self.give_back(&waiting, "the worker shuts down");
        }
    }

    /// The next moment that something waits for.
    fn next_wake(&self) -> Instant {
        let setup = &self.shared.setup;
        let grace = self.stopping_since.map(|since| since + setup.grace).filter(|_| !self.told_to_stop);
        let moments = [
            self.backoff.until(),
            self.unmarked.front().map(|(started, _)| *started + MARK_AFTER),
            self.waiting.front().map(|waiting| waiting.received + WAIT_AT_MOST),
            self.tell_at,
            self.say_at().filter(|at| *at > Instant::now()),
            self.look_for_lost.map(|(at, _)| at).filter(|at| *at > Instant::now()),
            Some(self.next_poll).filter(|_| self.stopping_since.is_none()),
            grace,
            self.give_up_at(),
        ];
        moments.into_iter().flatten().min().unwrap_or(self.next_poll)
    }

    /// Does what the moments of [`Driver::next_wake`] ask for, as far as they have come.
    fn note_time(&mut self) {
        let now = Instant::now();
        while self.unmarked.front().is_some_and(|(started, _)| *started + MARK_AFTER <= now) {
            let Some((_, token)) = self.unmarked.pop_front() else { break };
            if let Some(context) = self.running.get(&(token.task, token.lease)) {
                let attempt = context.attempt_row();
                let at = Some(attempt.store_time(attempt.started));
                self.outbox.push(Command::Start { token, at });
            }
        }
        while self.waiting.front().is_some_and(|waiting| waiting.received + WAIT_AT_MOST <= now) {
            let Some(waiting) = self.waiting.pop_front() else { break };
            self.give_back(&waiting, "no handler was free");
        }
        if self.tell_at.take_if(|at| *at <= now).is_some() {
            self.tell();
        }
        if self.next_poll <= now {
            self.next_poll = now + self.shared.setup.poll;
            self.hungry_by_poll = !self.hungry;
            self.hungry = true;
        }
        let is_late = self.stopping_since.is_some_and(|since| since + self.shared.setup.grace <= now);
        if is_late && !self.told_to_stop {
            self.told_to_stop = true;
            self.shared.held.stop_all(StopReason::Shutdown);
        }
    }

    /// Passes on what handlers have told.
    fn tell(&mut self) {
        for context in self.running.values() {
            if let Some(report) = context.attempt_row().notebook.take() {
                let token = self.token(context.id(), context.lease());
                self.outbox.push(Command::Report { token, report });
            }
        }
    }
}
