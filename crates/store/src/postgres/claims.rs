//! Claims of one transaction. Those of workers that ask for the same are one statement, which deals out what
//! it finds in their order: many workers with a few hands each cost little more than one with many.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use windlass_core::{Command, Name, Rejected, TaskId};

use super::Inner;
use super::board::Row;
use super::failure::Failure;
use super::floor::Began;
use super::read::all;
use super::row::{self, AFTER_TASK, signed};
use super::turn::{Answered, found};
use super::tx::{Answer, Tx, Which, args};
use crate::error::{Error, Result};
use crate::request::{Claim, Claimed, Turn};

/// Claims that were sent.
#[derive(Default)]
pub(super) struct Claims(Vec<Group>);

/// Those that ask for the same.
struct Group {
    /// What they ask for together.
    all: Claim,
    began: Began,
    /// The turns they are of, in order.
    turns: Vec<usize>,
}

/// What became of the claims of turns; nothing for those without one.
pub(super) struct Dealt {
    pub(super) claimed: Vec<Option<Result<Vec<Claimed>, Rejected>>>,
    /// All that is held from now on.
    pub(super) taken: Vec<Row>,
}

impl Inner {
    /// Carries out turns. A claim that finds nothing takes what is due, though nobody has promoted it yet, in
    /// a transaction of its own: a claim that finds something pays nothing for it.
    pub(super) async fn turns(self: &Arc<Self>, turns: &[Turn]) -> Result<Answered> {
        let (mut turned, rings) = self.turns_once(turns).await?;
        let in_vain = |at: &usize| {
            let claim = turns[*at].claim.as_ref().filter(|claim| claim.limit > 0);
            claim.is_some() && matches!(&turned[*at].claimed, Ok(claimed) if claimed.is_empty())
        };
        let in_vain: Vec<usize> = (0..turns.len()).filter(in_vain).collect();
        let again = match self.due_to_claim(turns, &in_vain).await {
            Ok(again) if !again.is_empty() => again,
            Ok(_) => return Ok((turned, rings)),
            Err(error) => {
                tracing::debug!(%error, "what is due was not looked for");
                return Ok((turned, rings));
            }
        };
        let (places, again): (Vec<usize>, Vec<Turn>) = again.into_iter().unzip();
        match self.turns_once(&again).await {
            Ok((more, rang)) => {
                for (at, more) in places.into_iter().zip(more) {
                    turned[at].claimed = more.claimed;
                }
                Ok((turned, rings.and(rang)))
            }
            // It may have claimed: the workers are to look what they hold.
            Err(error @ Error::Unknown(_)) => Err(error),
            Err(error) => {
                tracing::debug!(%error, "what is due was not claimed");
                Ok((turned, rings))
            }
        }
    }

    /// For turns that have claimed nothing, those that promote what is due and claim again.
    async fn due_to_claim(self: &Arc<Self>, turns: &[Turn], in_vain: &[usize]) -> Result<Vec<(usize, Turn)>> {
        let claims: Vec<(usize, &Claim)> =
            in_vain.iter().filter_map(|at| Some((*at, turns[*at].claim.as_ref()?))).collect();
        if claims.is_empty() {
            return Ok(Vec::new());
        }
        let asks = |claim: &Claim| (claim.namespace.clone(), claim.queues.clone(), claim.kinds.clone());
        let mut wanted: Vec<&Claim> = Vec::new();
        for (_, claim) in &claims {
            if !wanted.iter().any(|other| asks(other) == asks(claim)) {
                wanted.push(*claim);
            }
        }
        let names = |names: &[Name]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let values = |claim: &Claim| {
            args![
                claim.namespace.to_string() => TEXT,
                names(&claim.queues) => TEXT_ARRAY,
                names(&claim.kinds) => TEXT_ARRAY,
                self.clock.given() => TIMESTAMPTZ,
                signed(claim.most_due()) => INT8,
            ]
        };
        let which: Which = |sql| &sql.due_to_claim;
        let answers = self.read(|| wanted.iter().map(|claim| (which, values(claim))).collect()).await?;
        let (mut again, mut promoted) = (Vec::new(), BTreeSet::new());
        for (claim, answer) in wanted.into_iter().zip(answers) {
            let due = all(&answer, |row| row::id(row, 0))?;
            if due.is_empty() {
                continue;
            }
            let is_new = |task: &TaskId| promoted.insert(*task);
            let mut commands: Vec<Command> =
                due.into_iter().filter(is_new).map(|task| Command::Promote { task }).collect();
            for (at, other) in claims.iter().filter(|(_, other)| asks(other) == asks(claim)) {
                let turn = Turn {
                    commands: std::mem::take(&mut commands),
                    claim: Some((*other).clone()),
                    term: None,
                };
                again.push((*at, turn));
            }
        }
        Ok(again)
    }
}

impl Tx {
    /// Sends the claims of turns.
    pub(super) async fn send_claims(&mut self, turns: &[Turn]) -> Claims {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut known = HashMap::new();
        for (turn, claim) in claims(turns) {
            let Claim { namespace, queues, kinds, .. } = claim;
            let group = *known.entry((namespace, queues, kinds)).or_insert(groups.len());
            groups.resize_with(groups.len().max(group + 1), Vec::new);
            groups[group].push(turn);
        }
        if groups.is_empty() {
            return Claims::default();
        }
        let workers: Vec<String> = claims(turns).map(|(_, claim)| claim.worker.to_string()).collect();
        let now = self.inner.clock.given();
        self.send(|sql| &sql.alive, args![workers => TEXT_ARRAY, now => TIMESTAMPTZ]).await;
        let mut sent = Vec::with_capacity(groups.len());
        for group in groups {
            sent.extend(self.send_group(turns, group).await);
        }
        Claims(sent)
    }

    async fn send_group(&mut self, turns: &[Turn], group: Vec<usize>) -> Option<Group> {
        let claims: Vec<&Claim> = group.iter().filter_map(|turn| turns[*turn].claim.as_ref()).collect();
        let limit = claims.iter().map(|claim| claim.limit).sum();
        let all = Claim { limit, ..(*claims.first()?).clone() };
        let began = self.inner.floors.begin(&all);
        let names = |names: &[Name]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut values = args![
            claims.iter().map(|claim| claim.worker.to_string()).collect::<Vec<_>>() => TEXT_ARRAY,
            all.namespace.to_string() => TEXT,
            names(&all.queues) => TEXT_ARRAY,
            names(&all.kinds) => TEXT_ARRAY,
            claims.iter().map(|claim| signed(claim.limit)).collect::<Vec<_>>() => INT8_ARRAY,
            self.inner.clock.given() => TIMESTAMPTZ,
        ];
        values.extend(began.args());
        let one = all.queues.len() == 1 && all.kinds.len() == 1;
        self.send(if one { |sql| &sql.claim_one } else { |sql| &sql.claim }, values).await;
        Some(Group { all, began, turns: group })
    }

    /// Deals out what was claimed. `answers` are those to what was sent for it.
    pub(super) fn deal(
        &self,
        turns: &[Turn],
        sent: &Claims,
        mut answers: impl Iterator<Item = Answer>,
    ) -> Result<Dealt, Failure> {
        let mut dealt = Dealt { claimed: turns.iter().map(|_| None).collect(), taken: Vec::new() };
        if sent.0.is_empty() {
            return Ok(dealt);
        }
        let answer = answers.next().unwrap_or_default();
        let told = answer.rows.first().ok_or(Failure::Moved)?;
        self.inner.clock.hear(row::time(told, 0)?);
        let alive: HashSet<String> = row::get::<Vec<String>>(told, 1)?.into_iter().collect();
        for group in &sent.0 {
            let before = dealt.taken.len();
            let found = answers.next().unwrap_or_default();
            let mut found = found.rows.iter().filter_map(readable).peekable();
            for turn in &group.turns {
                let Some(Claim { worker, limit, .. }) = &turns[*turn].claim else { continue };
                let mut claimed = Vec::new();
                let is_its = |(_, one): &(Row, Claimed)| one.task.status.worker.as_ref() == Some(worker);
                while claimed.len() < *limit
                    && let Some((held, one)) = found.next_if(is_its)
                {
                    dealt.taken.push(held);
                    claimed.push(one);
                }
                let may = alive.contains(worker.as_str());
                let refused = || Rejected::InvalidWorker { worker: worker.clone() };
                dealt.claimed[*turn] = Some(if may { Ok(claimed) } else { Err(refused()) });
            }
            self.inner.floors.end(&group.all, &group.began, &dealt.taken[before..]);
        }
        Ok(dealt)
    }
}

/// The claims of turns, with the number of the turn.
fn claims(turns: &[Turn]) -> impl Iterator<Item = (usize, &Claim)> {
    turns.iter().enumerate().filter_map(|(turn, Turn { claim, .. })| Some((turn, claim.as_ref()?)))
}

/// A claimed task. One that cannot be read holds up only itself: its lease lasts as long as the worker.
fn readable(row: &tokio_postgres::Row) -> Option<(Row, Claimed)> {
    let decode = || -> Result<(Row, Claimed), row::Foreign> {
        let (seq, task) = row::task(row)?;
        let payload = row::json(row, AFTER_TASK + 4)?.unwrap_or_default();
        let details = row::json(row, AFTER_TASK + 5)?;
        Ok((found(row, seq, task.clone())?, Claimed { task, payload, details }))
    };
    decode()
        .inspect_err(|row::Foreign(why)| tracing::error!(why, "a task was claimed that cannot be read"))
        .ok()
}
