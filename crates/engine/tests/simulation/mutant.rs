//! Faults made on purpose: what the simulation must find.

use std::sync::atomic::Ordering;
use std::time::Duration;

use windlass::{
    Command, Due, Error, Firing, Leadership, NewTask, Receipt, State, Submitted, Term, Turn, Turned, WorkerId,
};

use super::world::World;

type Result<T> = std::result::Result<T, Error>;

/// What is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Mutant {
    /// Nothing.
    #[default]
    None,
    /// Some submits are acknowledged and not kept.
    LosesSubmits,
    /// Keys are forgotten.
    ForgetsKeys,
    /// Lanes and entities are forgotten.
    ForgetsLanes,
    /// Some finishes are acknowledged and not kept.
    LosesFinishes,
    /// Releases are acknowledged and not kept.
    LosesReleases,
    /// Cancels are acknowledged and not kept.
    LosesCancels,
    /// A claim is answered to two workers.
    AnswersClaimsTwice,
    /// A late worker is believed.
    BelievesZombies,
    /// Leases never expire.
    NeverExpires,
    /// A leader's term is not looked at.
    ForgetsTerms,
    /// The lease of a leader is given to everybody.
    CrownsEverybody,
    /// A slot of a schedule is fired twice.
    FiresTwice,
}

impl Mutant {
    /// All that are broken.
    pub(crate) const ALL: [Self; 12] = [
        Self::LosesSubmits,
        Self::ForgetsKeys,
        Self::ForgetsLanes,
        Self::LosesFinishes,
        Self::LosesReleases,
        Self::LosesCancels,
        Self::AnswersClaimsTwice,
        Self::BelievesZombies,
        Self::NeverExpires,
        Self::ForgetsTerms,
        Self::CrownsEverybody,
        Self::FiresTwice,
    ];

    /// Every so often.
    fn now_and_then(world: &World) -> bool {
        world.chances.fetch_add(1, Ordering::SeqCst) % 10 == 9
    }

    /// Changes what is submitted, or answers in the store's place.
    pub(super) fn submit(self, world: &World, tasks: &mut [NewTask]) -> Option<Result<Vec<Submitted>>> {
        match self {
            Self::LosesSubmits if Self::now_and_then(world) => {
                let answer = |task: &NewTask| Submitted { id: task.id, state: State::Pending, created: true };
                return Some(Ok(tasks.iter().map(answer).collect()));
            }
            Self::ForgetsKeys => tasks.iter_mut().for_each(|task| task.key = None),
            Self::ForgetsLanes => tasks.iter_mut().for_each(|task| task.lane = None),
            _ => {}
        }
        None
    }

    fn loses(self, world: &World, command: &Command) -> Option<Receipt> {
        let (token, state) = match command {
            Command::Finish { token, .. } if self == Self::LosesFinishes && Self::now_and_then(world) => {
                ((token.task, token.lease), State::Completed)
            }
            Command::Release { token, .. } if self == Self::LosesReleases => {
                ((token.task, token.lease), State::Pending)
            }
            Command::Cancel { task, .. } if self == Self::LosesCancels => ((*task, 0), State::Cancelled),
            _ => return None,
        };
        let kind = windlass::Name::kind("a").unwrap();
        Some(Receipt { task: token.0, kind, state, attempt: 1, lease: token.1, changed: true })
    }

    /// A turn, with what is broken.
    pub(super) async fn turn(self, world: &World, mut turn: Turn) -> Result<Turned> {
        if self == Self::ForgetsTerms {
            turn.term = None;
        }
        let lies: Vec<_> = turn.commands.iter().map(|command| self.loses(world, command)).collect();
        let mut kept = Vec::new();
        for (command, lie) in turn.commands.into_iter().zip(&lies) {
            if lie.is_none() {
                kept.push(self.refresh(world, command).await);
            }
        }
        turn.commands = kept;
        let worker = turn.claim.as_ref().map(|claim| claim.worker.clone());
        let mut turned = world.store.turn(turn).await?;
        let mut real = turned.receipts.into_iter();
        turned.receipts =
            lies.into_iter().filter_map(|lie| lie.map_or_else(|| real.next(), |lie| Some(Ok(lie)))).collect();
        if let (Self::AnswersClaimsTwice, Some(worker), Ok(claimed)) = (self, worker, &mut turned.claimed) {
            let mut echo = world.echo.lock().unwrap();
            let other = |again: &windlass::Claimed| again.task.status.worker.as_ref() != Some(&worker);
            if let Some(again) = echo.take_if(|again| other(again)) {
                claimed.push(again);
            } else if echo.is_none() {
                *echo = claimed.first().cloned();
            }
        }
        Ok(turned)
    }

    /// The command, with the lease that is in force instead of its own.
    async fn refresh(self, world: &World, command: Command) -> Command {
        let Command::Finish { mut token, outcome, started_at } = command else { return command };
        if self == Self::BelievesZombies
            && let Ok(Some(record)) = world.store.task(token.task).await
            && let Some(worker) = record.task.status.worker.filter(|_| record.task.status.state.is_held())
        {
            (token.lease, token.worker) = (record.task.status.lease, worker);
        }
        Command::Finish { token, outcome, started_at }
    }

    /// The answer to a candidate, with what is broken.
    pub(super) async fn campaign(
        self,
        world: &World,
        candidate: &WorkerId,
        lease: Duration,
    ) -> Result<Option<Leadership>> {
        let answer = world.store.campaign(candidate.clone(), lease).await?;
        if self == Self::CrownsEverybody && answer.is_none() {
            return world.store.leader().await;
        }
        Ok(answer)
    }

    /// What is due, with what is broken.
    pub(super) fn due(self, mut due: Due) -> Due {
        if matches!(self, Self::NeverExpires) {
            due.commands.retain(|command| !matches!(command, Command::Expire { .. }));
        }
        due
    }

    /// A slot fires, with what is broken.
    pub(super) async fn fire(
        self,
        world: &World,
        firing: Firing,
        term: Option<Term>,
    ) -> Result<Vec<Submitted>> {
        let term = term.filter(|_| self != Self::ForgetsTerms);
        let mut again = firing.tasks.clone();
        let submitted = world.store.fire(firing, term).await?;
        if self == Self::FiresTwice {
            for task in &mut again {
                (task.id, task.key) = (world.new_id(), None);
            }
            world.store.submit(again).await?;
        }
        Ok(submitted)
    }
}
