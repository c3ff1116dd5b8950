//! Invents the next operation. Only chance and what the world knows decide; nothing here touches a store.

use std::time::Duration;

use windlass_core::{
    By, Command, Json, Lane, Line, Name, NewWorker, Outcome, Progress, Report, Retention, State, Timestamp,
    WORKFLOW, WorkerId, limits,
};

use super::operation::Operation;
use super::world::{KINDS, LANES, QUEUES, World};
use crate::{Claim, Turn};

/// How far the clock may stray from the start of a sequence in either direction. Less than the distance
/// between two sequences, so that no lease of one is alive in the next.
pub(super) const REACH: Duration = Duration::from_secs(14 * 24 * 3600);

type Invent = fn(&mut World) -> Operation;

const OPERATIONS: [(usize, Invent); 20] = [
    (200, World::submit),
    (450, World::turn),
    (60, World::chores),
    (90, World::register),
    (80, World::heartbeat),
    (10, World::deregister),
    (25, World::campaign),
    (8, World::resign),
    (20, World::pause),
    (12, World::set_entity),
    (25, World::set_schedule),
    (4, World::remove_schedule),
    (60, World::fire),
    (10, World::reconcile),
    (15, World::prune),
    (10, World::define),
    (26, World::start_workflow),
    (22, World::steer),
    (90, World::clock),
    (10, |_| Operation::Crash),
];

type Make = fn(&mut World) -> Command;

const COMMANDS: [(usize, Make); 13] = [
    (38, World::finish),
    (14, World::report),
    (12, World::start),
    (8, |world| Command::Release { token: world.token(), note: world.note() }),
    (9, |world| Command::Claim { task: world.task(), worker: world.worker() }),
    (7, |world| Command::Cancel { task: world.task(), by: world.by() }),
    (8, |world| Command::Retry { task: world.task(), force: world.random.chance(40), by: world.by() }),
    (5, |world| Command::Postpone { task: world.task(), delay: world.span() }),
    (4, World::resolve),
    (3, World::skip),
    (5, |world| Command::Promote { task: world.task() }),
    (5, World::expire),
    (4, |world| Command::Delete { task: world.task() }),
];

const MILLI: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

impl World {
    /// The next operation.
    pub(super) fn invent(&mut self) -> Operation {
        if self.workers.is_empty() && self.random.chance(50) {
            return self.register();
        }
        self.random.weighted(&OPERATIONS)(self)
    }

    fn submit(&mut self) -> Operation {
        let many = self.random.weighted(&[(10, 0), (690, 1), (298, 2), (2, limits::BATCH + 1)]);
        let many = if many == 2 { 2 + self.random.below(4) } else { many };
        Operation::Submit((0..many).map(|_| self.new_task()).collect())
    }

    fn turn(&mut self) -> Operation {
        let claim = self.random.chance(55).then(|| self.claim());
        let many = match claim {
            Some(_) if self.random.chance(50) => 0,
            _ => self.random.weighted(&[(5, 0), (500, 1), (490, 2), (1, limits::BATCH + 1)]),
        };
        let many = if many == 2 { 2 + self.random.below(4) } else { many };
        let commands = (0..many).map(|_| self.random.weighted(&COMMANDS)(self)).collect();
        let term = self.random.chance(5).then(|| self.term());
        Operation::Turn(Turn { commands, claim, term })
    }

    fn claim(&mut self) -> Claim {
        let queues = self.random.some_of(&QUEUES.map(Name::stored));
        let mut kinds = self.random.some_of(&KINDS.map(Name::stored));
        if self.random.chance(50) {
            kinds.push(Name::stored(WORKFLOW));
        }
        let limit = self.random.weighted(&[(3, 0), (45, 1), (30, 3), (20, 8), (2, limits::BATCH + 1)]);
        Claim { worker: self.worker(), namespace: self.namespace(), queues, kinds, limit }
    }

    fn chores(&mut self) -> Operation {
        let limit = self.random.weighted(&[(1, 0), (3, 1), (3, 4), (3, 100)]);
        Operation::Chores { limit, term: self.random.chance(50).then(|| self.term()) }
    }

    fn start(&mut self) -> Command {
        Command::Start { token: self.token(), at: self.moment() }
    }

    fn finish(&mut self) -> Command {
        Command::Finish { token: self.token(), outcome: self.outcome(), started_at: self.moment() }
    }

    /// Mostly the lines that come next, if the attempt has told few; or some that are known, or some too far
    /// ahead.
    fn report(&mut self) -> Command {
        let note = self.note();
        let done = self.random.pick(&[0, 1, 7, u64::MAX]);
        let progress = Progress { done, total: self.random.pick(&[None, Some(7), Some(u64::MAX)]), note };
        let many = self.random.weighted(&[(50, 0), (30, 1), (19, 3), (1, limits::BATCH + 1)]);
        let text = self.random.pick(&["", "a line", "o'line \"é\"\n", "l\0ne"]);
        let text = if self.random.chance(3) { text.repeat(limits::LINE_BYTES) } else { text.into() };
        let line = Line { at: self.moment().unwrap_or(self.now), text };
        let report = Report {
            progress: self.random.chance(50).then_some(progress),
            details: self.random.chance(50).then(|| self.json()),
            first_line: u64::try_from(self.random.below(5)).unwrap(),
            lines: vec![line; many],
        };
        Command::Report { token: self.token(), report }
    }

    /// A lane for each item of a list.
    fn lanes(&mut self, many: usize) -> Vec<Lane> {
        let lane = |world: &mut Self| {
            let limit = world.random.pick(&[1, 1, 2]);
            Lane::new(world.random.pick(&LANES), limit).unwrap()
        };
        (0..many).map(|_| lane(self)).collect()
    }

    fn outcome(&mut self) -> Outcome {
        match self.random.below(100) {
            0..40 => Outcome::Completed { result: self.json() },
            40..80 => Outcome::Failed {
                error: self.random.pick(&["", "boom", "a\0b", "déjà vu"]).into(),
                retryable: self.random.chance(80),
                retry_after: self.random.chance(25).then(|| self.span()),
            },
            80..86 => Outcome::Snoozed { delay: self.span() },
            86..89 => Outcome::Skipped { note: "not needed".into() },
            89..96 => {
                let many = self.random.weighted(&[(1, 0), (3, 1), (3, 2), (2, 3)]);
                let items = (0..many).map(|_| self.json()).collect();
                if self.random.chance(25) {
                    let many = if self.random.chance(95) { many } else { many + 1 };
                    return Outcome::Expanded { items, max_parallel: None, lanes: self.lanes(many) };
                }
                let max_parallel = self.random.pick(&[None, Some(1), Some(2), Some(0)]);
                Outcome::Expanded { items, max_parallel, lanes: Vec::new() }
            }
            _ => Outcome::Cancelled { note: "not needed".into() },
        }
    }

    fn resolve(&mut self) -> Command {
        let result = self.random.chance(50).then(|| self.json());
        Command::Resolve { task: self.task(), result, by: self.by() }
    }

    fn expire(&mut self) -> Command {
        let token = self.token();
        Command::Expire { task: token.task, lease: token.lease }
    }

    fn register(&mut self) -> Operation {
        let id = WorkerId::new(format!("w{}", 1 + self.random.below(4))).unwrap();
        Operation::Register(NewWorker {
            host: self.random.pick(&["", "host", "h\0st"]).into(),
            version: "1.0".into(),
            pool_size: self.random.weighted(&[(3, 1), (1, 8), (1, u32::MAX)]),
            namespace: self.namespace(),
            queues: self.random.some_of(&QUEUES.map(Name::stored)),
            kinds: self.random.some_of(&KINDS.map(Name::stored)),
            dead_after: self.random.weighted(&[
                (1, Duration::ZERO),
                (4, 500 * MILLI),
                (20, 30 * SECOND),
                (25, HOUR),
                (50, 48 * HOUR),
            ]),
            ..NewWorker::new(id)
        })
    }

    fn heartbeat(&mut self) -> Operation {
        let held = (0..self.random.below(5)).map(|_| self.token()).map(|token| (token.task, token.lease));
        let held = held.collect();
        Operation::Heartbeat(self.worker(), held)
    }

    fn deregister(&mut self) -> Operation {
        Operation::Deregister(self.worker())
    }

    fn campaign(&mut self) -> Operation {
        let lease = self.random.pick(&[Duration::ZERO, SECOND, 30 * SECOND, 30 * SECOND, HOUR]);
        Operation::Campaign(self.worker(), lease)
    }

    fn resign(&mut self) -> Operation {
        Operation::Resign(self.worker(), self.term())
    }

    /// Resumes more often than it pauses, so that work goes on.
    fn pause(&mut self) -> Operation {
        Operation::Pause(self.namespace(), self.queue(), self.random.chance(35))
    }

    fn set_entity(&mut self) -> Operation {
        Operation::SetEntity(self.namespace(), self.entity(), self.random.chance(70))
    }

    /// Mostly from where the last look ended.
    fn reconcile(&mut self) -> Operation {
        let after = match self.random.below(10) {
            0 => None,
            1 => Some(
                self.random
                    .pick(&["default", "default @planner:1", "lane tenant lane", "workflow ", "~"])
                    .into(),
            ),
            _ => self.place.clone(),
        };
        Operation::Reconcile(after, self.random.pick(&[0, 1, 1, 3, 100]))
    }

    fn prune(&mut self) -> Operation {
        let finals: Vec<_> = State::ALL.into_iter().filter(|state| state.is_final()).collect();
        let mut retention = Retention::default();
        for _ in 0..1 + self.random.below(5) {
            let age = self.random.pick(&[Duration::ZERO, SECOND, HOUR]);
            retention = retention.keep(self.random.pick(&finals), age).unwrap();
        }
        Operation::Prune(retention, self.random.pick(&[0, 1, 3, 10, 1000]))
    }

    /// Mostly a little forward, sometimes far, sometimes back.
    fn clock(&mut self) -> Operation {
        let (micro, minute) = (Duration::from_micros(1), 60 * SECOND);
        let unit = self.random.weighted(&[(5, micro), (25, MILLI), (40, SECOND), (22, minute), (8, HOUR)]);
        let by = unit * (1 + u32::try_from(self.random.below(20)).unwrap());
        let to = if self.random.chance(15) { self.now.minus(by) } else { self.now.plus(by) };
        Operation::Clock(to.clamp(self.start.minus(REACH), self.start.plus(REACH)))
    }

    /// A length of time, from nothing to more than any limit.
    pub(super) fn span(&mut self) -> Duration {
        let far = limits::RETRY_AFTER + SECOND;
        let spans = [(2, Duration::ZERO), (2, MILLI), (6, SECOND), (3, 90 * SECOND), (2, HOUR), (1, far)];
        self.random.weighted(&spans)
    }

    /// A moment around now, if any.
    pub(super) fn moment(&mut self) -> Option<Timestamp> {
        let span = self.span();
        match self.random.below(10) {
            0 => Some(self.now.plus(span)),
            1 | 2 => Some(self.now.minus(span)),
            3 => Some(Timestamp::MIN),
            _ => None,
        }
    }

    pub(super) fn json(&mut self) -> Json {
        let texts = [
            "null",
            " {\"a\" : 1} ",
            r#"{"a":1,"a":2}"#,
            "1e400",
            r#""\u0000""#,
            r#""\ud800""#,
            "\"é😀\"",
            "[[],[[]]]",
        ];
        Json::payload(self.random.pick(&texts)).unwrap()
    }

    pub(super) fn note(&mut self) -> Option<String> {
        self.random.pick(&[None, Some(""), Some("shutting down"), Some("n\0te")]).map(Into::into)
    }

    pub(super) fn by(&mut self) -> By {
        let actor = self.random.pick(&[None, Some("ada"), Some("o'brien")]).map(Into::into);
        By { actor, note: self.note() }
    }
}
