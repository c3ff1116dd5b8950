//! Workers elsewhere: what a program does that claims and reports for workers in other languages and on other machines.
//!
//! Such a worker knows neither definitions nor expressions. Whoever claims for it evaluates its steps, and hands it only what has a
//! handler to be run.

use futures_util::future::join_all;
use windlass_core::{Command, Json, Name, Outcome, Place, Rejected, Token, Workflow, limits};
use windlass_store::{Claimed, Receipt, Result, Turn};

use crate::client::Client;
use crate::steps::{self, ClaimedStep, Flow, Prepared};

/// A task that was claimed for a worker elsewhere.
#[derive(Clone, PartialEq, Debug)]
pub struct Handed {
    /// The task as it was claimed, with what the handler is given; of a step, that is what its definition says.
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

/// What became of a turn for a worker elsewhere.
#[derive(Clone, PartialEq, Debug)]
pub struct TurnedElsewhere {
    /// One answer per command, in order.
    pub receipts: Vec<Result<Receipt, Rejected>>,
    /// What was claimed and is to be run, best first; or why the worker may not claim.
    pub handed: Result<Vec<Handed>, Rejected>,
    /// Whether steps were claimed that ended without a handler: what follows from them may be claimed at once.
    pub went_on: bool,
}

impl Client {
    /// Carries out a turn for a worker elsewhere, and evaluates the steps that it has claimed: those whose conditions are false are skipped,
    /// those with lists get their items, those that are workflows are started; the rest is handed to the worker.
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
        let (mut handed, mut ended, mut went_on) = (Vec::new(), Vec::new(), false);
        for one in join_all(claimed.into_iter().map(|claimed| self.prepare(claimed))).await {
            match one {
                Readied::Handed(one) => handed.push(*one),
                Readied::Ended(token, outcome) => {
                    ended.push(Command::Finish { token, outcome, started_at: None });
                }
                Readied::Nested => went_on = true,
            }
        }
        went_on |= !ended.is_empty();
        for commands in ended.chunks(limits::BATCH) {
            // One that is refused is not this worker's any more: somebody else decides about it.
            self.store.apply(commands.to_vec()).await?;
        }
        Ok(TurnedElsewhere { receipts: turned.receipts, handed: Ok(handed), went_on })
    }

    async fn prepare(&self, claimed: Claimed) -> Readied {
        let (Some(workflow), Some(worker)) = (claimed.task.spec.workflow, &claimed.task.status.worker) else {
            return Readied::Handed(Box::new(Handed { claimed, place: None }));
        };
        let token = Token { task: claimed.task.id, lease: claimed.task.status.lease, worker: worker.clone() };
        let step = ClaimedStep { client: self, workflow, token: &token, payload: &claimed.payload };
        match steps::prepare(step).await {
            Prepared::Nested => Readied::Nested,
            Prepared::Ended(outcome) => Readied::Ended(token, outcome),
            Prepared::Run(flow, payload) => {
                let place = self.place(&flow, &claimed).await;
                Readied::Handed(Box::new(Handed { claimed: Claimed { payload, ..claimed }, place }))
            }
        }
    }

    /// Where a step is. What its parents returned is told as far as the store answers: a worker can ask again.
    async fn place(&self, flow: &Flow, claimed: &Claimed) -> Option<HandedStep> {
        let place = Place::of(claimed.task.id);
        let parents = flow.blueprint.graph().parents(place.step);
        let ids: Vec<_> = parents.iter().map(|step| flow.id.step(*step)).collect();
        let found =
            if ids.is_empty() { Vec::new() } else { self.store.results(ids).await.unwrap_or_default() };
        let name = |step: &u32| Some(flow.blueprint.step(*step)?.name.clone());
        let results = parents.iter().filter_map(name).zip(found).collect();
        let step = flow.blueprint.step(place.step)?;
        Some(HandedStep { name: Workflow::place_name(&step.name, place), results })
    }
}

/// What is to be done with a task that was claimed.
enum Readied {
    Handed(Box<Handed>),
    Ended(Token, Outcome),
    Nested,
}
