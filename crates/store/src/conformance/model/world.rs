//! What the model knows about the world: enough to meet its inhabitants again, by name.
//!
//! All pools are small, so that keys, lanes, queues and leases collide all the time.

use windlass_core::{
    Command, Definition, Entity, Name, Outcome, Schedule, TaskId, Term, Timestamp, Token, WorkerId,
    WorkflowId, WorkflowState,
};

use super::invent_workflow::{items_of, steps_of};
use super::operation::{Answer, Operation};
use super::random::Random;

pub(super) const NAMESPACES: [&str; 2] = ["default", "tenant"];
pub(super) const QUEUES: [&str; 3] = ["default", "mail", "bulk"];
pub(super) const KINDS: [&str; 3] = ["test:work", "mail:send", "odd"];
pub(super) const KEYS: [&str; 4] = ["k", "K", "o'key \"é\"", "k "];
pub(super) const LANES: [&str; 3] = ["lane", "Lane", "planner:1"];
pub(super) const ENTITIES: [&str; 3] = ["planner:1", "planner:2", "agent:a:b"];
pub(super) const SCHEDULES: [&str; 4] = ["nightly", "Nightly", "every:5m", "n"];
pub(super) const TAGS: [&str; 4] = ["red", "Red", "a,b", "%_'\""];
/// Programs that move workflows by themselves.
pub(super) const OWNERS: [&str; 2] = ["mover", "o'ther"];
/// The last two never register.
pub(super) const WORKERS: [&str; 6] = ["w1", "w2", "w3", "w4", "ghost", "gho%t"];

/// What was seen in one sequence.
#[derive(Debug)]
pub(super) struct World {
    pub(super) random: Random,
    pub(super) seed: u64,
    /// When the sequence began; the clock stays within reach of it.
    pub(super) start: Timestamp,
    pub(super) now: Timestamp,
    /// Everything ever accepted, the deleted too.
    pub(super) tasks: Vec<TaskId>,
    /// Everything ever handed out, the lost too.
    pub(super) tokens: Vec<Token>,
    /// Who is registered, dead or alive.
    pub(super) workers: Vec<WorkerId>,
    /// Every term ever won; never empty.
    pub(super) terms: Vec<Term>,
    /// Schedules as they were last seen, the removed too.
    pub(super) schedules: Vec<Schedule>,
    /// Every workflow ever started, the pruned too.
    pub(super) workflows: Vec<WorkflowId>,
    /// The last definition.
    pub(super) described: Option<Definition>,
    /// A workflow that somebody has moved, and where it was then.
    pub(super) moved: Option<(WorkflowId, WorkflowState)>,
    /// Where the last look at lanes and workflows ended.
    pub(super) place: Option<String>,
}

impl World {
    /// Nothing is known but the last term, if there was one.
    pub(super) fn new(seed: u64, start: Timestamp, term: Term) -> Self {
        let (tasks, tokens, workers, terms) = (Vec::new(), Vec::new(), Vec::new(), vec![term]);
        let (random, schedules) = (Random::new(seed), Vec::new());
        let (now, workflows, described, moved, place) = (start, Vec::new(), None, None, None);
        Self {
            random,
            seed,
            start,
            now,
            tasks,
            tokens,
            workers,
            terms,
            schedules,
            workflows,
            described,
            moved,
            place,
        }
    }

    /// Remembers what an answer tells.
    pub(super) fn learn(&mut self, operation: &Operation, answer: &Answer) {
        match (operation, answer) {
            (Operation::Clock(to), _) => self.now = *to,
            (operation, Answer::Submitted(Ok(submitted))) => {
                self.tasks.extend(submitted.iter().filter(|one| one.created).map(|one| one.id));
                if let Operation::Fire(firing, _) = operation {
                    let same = |known: &&mut Schedule| {
                        known.namespace == firing.namespace && known.name == firing.name
                    };
                    self.schedules.iter_mut().filter(same).for_each(|known| known.next_at = firing.next_at);
                }
            }
            (_, Answer::Scheduled(Ok(schedule))) => self.see(schedule),
            (_, Answer::Chores(Ok(due), _)) => due.schedules.iter().for_each(|schedule| self.see(schedule)),
            (_, Answer::Reconciled(Ok(look))) => self.place.clone_from(&look.next),
            (Operation::Turn(turn), Answer::Turned(Ok(turned))) => {
                for (command, receipt) in turn.commands.iter().zip(&turned.receipts) {
                    if let (Command::Finish { token, outcome: Outcome::Expanded { items, .. }, .. }, Ok(_)) =
                        (command, receipt)
                    {
                        self.tasks.extend(items_of(token.task, items.len()));
                    }
                    if let (Command::Claim { task, worker }, Ok(receipt)) = (command, receipt) {
                        let (task, worker) = (*task, worker.clone());
                        self.tokens.push(Token { task, lease: receipt.lease, worker });
                    }
                }
                self.tokens.extend(turned.claimed.iter().flatten().map(crate::conformance::token));
            }
            (_, Answer::Registered(Ok(worker))) if !self.workers.contains(&worker.id) => {
                self.workers.push(worker.id.clone());
            }
            (Operation::Deregister(worker), _) => self.workers.retain(|known| known != worker),
            (Operation::Start(new), Answer::Started(Ok(started))) if started.created => {
                self.workflows.push(started.id);
                self.tasks.extend(steps_of(new));
            }
            (Operation::Steer(id, ..), Answer::Steered(Ok(workflow)))
                if workflow.owner.is_some() || (self.moved.is_none() && workflow.state.is_active()) =>
            {
                self.moved = Some((*id, workflow.state));
            }
            (_, Answer::Campaigned(Ok(Some(won)))) => self.terms.push(won.term),
            _ => {}
        }
    }

    fn see(&mut self, schedule: &Schedule) {
        self.schedules
            .retain(|known| (&known.namespace, &known.name) != (&schedule.namespace, &schedule.name));
        self.schedules.push(schedule.clone());
    }

    /// A namespace, mostly the first.
    pub(super) fn namespace(&mut self) -> Name {
        let index = usize::from(self.random.chance(20));
        Name::namespace(NAMESPACES[index]).unwrap()
    }

    pub(super) fn queue(&mut self) -> Name {
        Name::queue(self.random.pick(&QUEUES)).unwrap()
    }

    pub(super) fn kind(&mut self) -> Name {
        Name::kind(self.random.pick(&KINDS)).unwrap()
    }

    pub(super) fn entity(&mut self) -> Entity {
        self.random.pick(&ENTITIES).parse().unwrap()
    }

    /// A worker: mostly a registered one; or any, even one that nobody ever heard of.
    pub(super) fn worker(&mut self) -> WorkerId {
        if self.workers.is_empty() || self.random.chance(10) {
            return WorkerId::new(self.random.pick(&WORKERS)).unwrap();
        }
        self.random.pick(&self.workers)
    }

    /// An id that was never used, in no order.
    pub(super) fn new_id(&mut self) -> TaskId {
        let (high, low) = (u128::from(self.random.next()), u128::from(self.random.next()));
        TaskId::from_bytes((high << 64 | low).to_be_bytes())
    }

    /// A task: mostly a young one; it may be long gone, and rarely it never was.
    pub(super) fn task(&mut self) -> TaskId {
        if self.tasks.is_empty() || self.random.chance(2) {
            return self.new_id();
        }
        let reach = if self.random.chance(70) { 15 } else { self.tasks.len() };
        recent(&mut self.random, &self.tasks, reach)
    }

    /// A token: mostly the newest, which are good more often than not; or an old or a forged one.
    pub(super) fn token(&mut self) -> Token {
        if self.tokens.is_empty() {
            let (task, worker) = (self.task(), self.worker());
            return Token { task, lease: 1, worker };
        }
        let reach = self.random.weighted(&[(60, 6), (25, 15), (15, self.tokens.len())]);
        let mut token = recent(&mut self.random, &self.tokens, reach);
        match self.random.below(40) {
            0 => token.lease += 1,
            1 => token.lease = 0,
            2 => token.worker = self.worker(),
            3 => token.task = self.task(),
            // What a worker still has that lost the task to itself or to another.
            4..8 => token.lease = token.lease.saturating_sub(1),
            _ => {}
        }
        token
    }

    /// A term: mostly the last; or one before or after it.
    pub(super) fn term(&mut self) -> Term {
        let last = self.terms[self.terms.len() - 1];
        match self.random.below(10) {
            0 => last + 1,
            1 => self.random.pick(&self.terms.clone()),
            _ => last,
        }
    }
}

/// One of the last `reach`.
fn recent<T: Clone>(random: &mut Random, all: &[T], reach: usize) -> T {
    random.pick(&all[all.len().saturating_sub(reach)..])
}
