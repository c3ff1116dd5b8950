//! Workers elsewhere: what a program does that claims and reports for workers in other languages and on other
//! machines.
//!
//! Such a worker knows neither definitions nor expressions. The server that claims for it evaluates its
//! steps, and hands it only what has a handler to be run.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::join_all;
use tokio::time::{Duration, Instant, sleep};
use tracing::warn;
use windlass_core::{Command, Json, Name, Outcome, Place, Rejected, Token, Workflow, WorkflowId, limits};
use windlass_store::{Claimed, Error, Receipt, Result, Store, Turn};

use crate::client::Client;
use crate::error::TaskError;
use crate::steps::{self, ClaimedStep, Flow, Prepared};

/// How long a step waits for a store that does not answer, or for an evaluator, before its claim is given
/// back: what was claimed with it waits as well.
const PATIENCE: Duration = Duration::from_secs(2);

/// Steps that are evaluated at once: so much of what is claimed may be in memory beyond what is handed out.
const AT_ONCE: usize = 64;

/// A task that was claimed for a worker elsewhere.
#[derive(Clone, PartialEq, Debug)]
pub struct Handed {
    /// The task as it was claimed, with what the handler is given; of a step, that is what its definition
    /// says.
    pub claimed: Claimed,
    /// Of a step: where it is.
    pub place: Option<HandedStep>,
}

/// A step that was claimed for a worker elsewhere.
#[derive(Clone, PartialEq, Debug)]
pub struct HandedStep {
    /// Its name, with the number of the item if it is one.
    pub name: String,
    /// What the steps that it needs have returned, in the order it names them.
    pub results: Vec<(Name, Option<Json>)>,
}

impl Handed {
    /// How much of it is told.
    fn bytes(&self) -> usize {
        let Claimed { payload, details, .. } = &self.claimed;
        let results =
            self.place.iter().flat_map(|place| &place.results).filter_map(|(_, json)| json.as_ref());
        results.chain(details).chain([payload]).map(|json| json.as_str().len()).sum()
    }
}

/// What became of a turn for a worker elsewhere.
#[derive(Clone, PartialEq, Debug)]
pub struct TurnedElsewhere {
    /// One answer per command, in order.
    pub receipts: Vec<Result<Receipt, Rejected>>,
    /// What was claimed and is to be run, best first, about [`limits::HANDED_BYTES`] at most; or why the
    /// worker may not claim.
    pub handed: Result<Vec<Handed>, Rejected>,
    /// Whether steps were claimed that ended without a handler: what follows from them may be claimed at
    /// once.
    pub went_on: bool,
}

impl Client {
    /// Carries out a turn for a worker elsewhere, and evaluates the steps that it has claimed: those whose
    /// conditions are false are skipped, those with lists get their items, those that are workflows are
    /// started; the rest is handed to the worker. What the worker cannot be given now, because it is too much
    /// at once or the store does not answer, is given back.
    ///
    /// An error is one of the turn. What was done before another call of the store failed is told.
    pub async fn turn_elsewhere(&self, turn: Turn) -> Result<TurnedElsewhere> {
        let turned = self.store.turn(turn).await?;
        let claimed = match turned.claimed {
            Ok(claimed) => claimed,
            Err(rejected) => {
                return Ok(TurnedElsewhere {
                    receipts: turned.receipts,
                    handed: Err(rejected),
                    went_on: false,
                });
            }
        };
        let Sorted { handed, commands, nested } = self.sort(claimed).await;
        let ended = commands.iter().any(|command| matches!(command, Command::Finish { .. }));
        let is_told = self.settle(commands).await;
        let handed = self.record_starts(handed).await;
        Ok(TurnedElsewhere {
            receipts: turned.receipts,
            handed: Ok(handed),
            went_on: nested || (ended && is_told),
        })
    }

    /// Decides about everything that was claimed, in order, until there is as much as an answer holds.
    async fn sort(&self, claimed: Vec<Claimed>) -> Sorted {
        let (mut sorted, mut claimed, mut bytes) = (Sorted::default(), claimed.into_iter(), 0);
        let until = Instant::now() + PATIENCE;
        while bytes < limits::HANDED_BYTES && claimed.len() > 0 {
            let some: Vec<Claimed> = claimed.by_ref().take(AT_ONCE).collect();
            for one in join_all(some.into_iter().map(|claimed| self.prepare(claimed, until))).await {
                match one {
                    Readied::Handed(one) => {
                        bytes += one.bytes();
                        if bytes <= limits::HANDED_BYTES || sorted.handed.is_empty() {
                            sorted.handed.push(*one);
                        } else {
                            sorted.commands.extend(too_much(&one.claimed));
                        }
                    }
                    Readied::Ended(token, outcome) => {
                        sorted.commands.push(Command::Finish { token, outcome, started_at: None });
                    }
                    Readied::Nested => sorted.nested = true,
                    Readied::Unanswered(token, why) => {
                        let note = Some(format!("it is not known yet what it is given: {why}"));
                        sorted.commands.push(Command::Release { token, note });
                    }
                }
            }
        }
        sorted.commands.extend(claimed.filter_map(|claimed| too_much(&claimed)));
        sorted
    }

    async fn prepare(&self, claimed: Claimed, until: Instant) -> Readied {
        let (Some(workflow), Some(token)) = (claimed.task.spec.workflow, token(&claimed)) else {
            return Readied::Handed(Box::new(Handed { claimed, place: None }));
        };
        let until = Some(until);
        match steps::answered(token.task, until, || self.ready(&claimed, workflow, &token, until)).await {
            Ok(readied) => readied,
            Err(Error::Unavailable(why) | Error::Unknown(why)) => Readied::Unanswered(token, why),
            Err(error) => Readied::Ended(token, TaskError::retry(error).outcome()),
        }
    }

    /// Decides about a step. The error is the store's.
    async fn ready(
        &self,
        claimed: &Claimed,
        workflow: WorkflowId,
        token: &Token,
        until: Option<Instant>,
    ) -> Result<Readied> {
        let step = ClaimedStep { client: self, workflow, token, payload: &claimed.payload, until };
        Ok(match steps::decide(step).await? {
            Ok(Prepared::Nested) => Readied::Nested,
            Ok(Prepared::Ended(outcome)) => Readied::Ended(token.clone(), outcome),
            Err(failed) => Readied::Ended(token.clone(), failed.outcome()),
            Ok(Prepared::Run(flow, payload)) => {
                let place = self.place(&flow, claimed).await?;
                Readied::Handed(Box::new(Handed { claimed: Claimed { payload, ..claimed.clone() }, place }))
            }
        })
    }

    /// Where a step is, and what its parents returned.
    async fn place(&self, flow: &Flow, claimed: &Claimed) -> Result<Option<HandedStep>> {
        let place = Place::of(claimed.task.id);
        let parents = flow.blueprint.graph().parents(place.step);
        let ids: Vec<_> = parents.iter().map(|step| flow.id.step(*step)).collect();
        let found = if ids.is_empty() { Vec::new() } else { self.store.results(ids).await? };
        let name = |step: &u32| Some(flow.blueprint.step(*step)?.name.clone());
        let results = parents.iter().filter_map(name).zip(found).collect();
        let step = flow.blueprint.step(place.step);
        Ok(step.map(|step| HandedStep { name: Workflow::place_name(&step.name, place), results }))
    }

    /// Records the starts of those tasks whose starts must be recorded before they run, and leaves out those
    /// for which that failed. Nobody here sees a worker elsewhere start a handler: what it is given counts as
    /// started.
    async fn record_starts(&self, mut handed: Vec<Handed>) -> Vec<Handed> {
        let must = |one: &&Handed| one.claimed.task.must_record_start();
        let tokens: Vec<Token> = handed.iter().filter(must).filter_map(|one| token(&one.claimed)).collect();
        if tokens.is_empty() {
            return handed;
        }
        let start = |token: &Token| Command::Start { token: token.clone(), at: None };
        let started: BTreeSet<_> = match self.store.apply(tokens.iter().map(start).collect()).await {
            Ok(receipts) => tokens
                .iter()
                .zip(receipts)
                .filter(|(_, receipt)| receipt.is_ok())
                .map(|(token, _)| token.task)
                .collect(),
            Err(error) => {
                warn!(%error, "tasks are given back because their start was not recorded");
                let note = || Some("the store did not record its start".into());
                let release = |token| Command::Release { token, note: note() };
                tokio::spawn(insist(self.store.clone(), tokens.into_iter().map(release).collect()));
                BTreeSet::new()
            }
        };
        handed.retain(|one| !must(&one) || started.contains(&one.claimed.task.id));
        handed
    }

    /// Tells the store what was decided; whether it has heard. What it has not is told again and again
    /// meanwhile: nobody else knows of these claims, and all of it may be said twice.
    async fn settle(&self, commands: Vec<Command>) -> bool {
        for (told, some) in commands.chunks(limits::BATCH).enumerate() {
            // One that is refused is not this worker's any more: somebody else decides about it.
            if let Err(error) = self.store.apply(some.to_vec()).await {
                warn!(%error, "what became of steps waits for the store");
                let rest = commands[told * limits::BATCH..].to_vec();
                tokio::spawn(insist(self.store.clone(), rest));
                return false;
            }
        }
        true
    }
}

/// Tells the store until it has heard, or is closed.
async fn insist(store: Arc<dyn Store>, commands: Vec<Command>) {
    for some in commands.chunks(limits::BATCH) {
        let mut wait = Duration::from_millis(50);
        while let Err(Error::Unavailable(_) | Error::Unknown(_)) = store.apply(some.to_vec()).await {
            sleep(wait).await;
            wait = (wait * 2).min(Duration::from_secs(5));
        }
    }
}

/// Proof of a claim.
fn token(claimed: &Claimed) -> Option<Token> {
    let status = &claimed.task.status;
    Some(Token { task: claimed.task.id, lease: status.lease, worker: status.worker.clone()? })
}

/// Gives back what does not fit into one answer.
fn too_much(claimed: &Claimed) -> Option<Command> {
    let note = Some("more than one answer holds".into());
    Some(Command::Release { token: token(claimed)?, note })
}

/// What was decided about claims.
#[derive(Default)]
struct Sorted {
    handed: Vec<Handed>,
    /// What the store is to be told of those that are not handed out.
    commands: Vec<Command>,
    nested: bool,
}

/// What is to be done with a task that was claimed.
enum Readied {
    Handed(Box<Handed>),
    Ended(Token, Outcome),
    Nested,
    /// It is not known what it is given, and why: the store does not say, or no evaluator is free.
    Unanswered(Token, String),
}
