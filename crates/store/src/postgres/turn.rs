//! A worker's or leader's turn: carrying out commands, then claiming.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::sync::Arc;

use windlass_core::{
    Before, Changes, Command, LanesAbove, Name, Outcome, Place, Rejected, Scope, Task, TaskId, Timestamp,
    Token, WorkerId, WorkflowId, transition,
};

use super::Inner;
use super::board::{Board, Past, Row, Sent, lane_of};
use super::claims::Dealt;
use super::failure::Failure;
use super::row::{self, AFTER_TASK, uuid};
use super::tx::{Answer, Args, Tx, args};
use super::workflow_row::{self, Locked, wide};
use crate::error::Result;
use crate::request::{Receipt, Rings, Turn, Turned};

/// The answers to several turns, and what is to be rung when they are durable.
pub(super) type Answered = (Vec<Turned>, Rings);

type Receipts = Vec<Result<Receipt, Rejected>>;

/// What commands look at beside their tasks.
#[derive(Default)]
struct Around {
    alive_until: HashMap<WorkerId, Timestamp>,
    paused: BTreeSet<(Name, Name)>,
    lanes_above: HashMap<TaskId, LanesAbove>,
}

impl Inner {
    /// Carries out turns, in one transaction. First in the belief that the tasks are as this process left
    /// them, which takes one round trip; if not, after a look at them.
    pub(super) async fn turns_once(self: &Arc<Self>, turns: &[Turn]) -> Result<Answered> {
        let mut held = self.take_held(turns);
        if let Some(believed) = self.believed(turns, &held) {
            held.clear();
            let believed = Cell::new(Some(believed));
            let once = async |tx: &mut Tx| {
                let believed = believed.take().ok_or(Failure::Moved)?;
                tx.turn_believed(turns, believed).await
            };
            let done = self.try_transaction(&once).await;
            if done.is_err() {
                self.floors.forget(turns);
            }
            match done {
                Ok(done) => return Ok(done),
                Err(Failure::Moved | Failure::Again(_)) => {}
                Err(Failure::Final(error)) => return Err(error),
            }
        }
        let held = Cell::new(held);
        let known = async |tx: &mut Tx| {
            let done = tx.turn_known(turns, held.take()).await;
            if done.is_err() {
                tx.inner.floors.forget(turns);
            }
            done
        };
        self.transaction(known).await
    }

    /// The tasks that commands of their holders are about, as this process left them. Whatever becomes of
    /// them, they will not be as they were. Those in lanes are not among them: others give and take their
    /// slots.
    fn take_held(&self, turns: &[Turn]) -> Vec<Row> {
        let mut held = self.held();
        let commands = turns.iter().flat_map(|turn| &turn.commands);
        let tokens = commands.filter_map(|command| match command {
            Command::Finish { token, .. } | Command::Start { token, .. } | Command::Release { token, .. } => {
                Some(token)
            }
            _ => None,
        });
        let is_its = |row: &Row, token: &Token| {
            row.task.status.lease == token.lease && row.task.status.worker.as_ref() == Some(&token.worker)
        };
        let taken = tokens.filter_map(|token| held.remove(&token.task).filter(|row| is_its(row, token)));
        taken.filter(|row| row.task.spec.lane.is_none()).collect()
    }

    /// What commands do to `held`, if they are about nothing else and nothing else has to be looked at.
    fn believed(&self, turns: &[Turn], held: &[Row]) -> Option<Believed> {
        if turns.iter().any(|turn| turn.term.is_some()) {
            return None;
        }
        let now = self.clock.now();
        let mut board = Board::default();
        held.iter().for_each(|row| board.put(row.clone()));
        let mut receipts = Vec::with_capacity(turns.len());
        for turn in turns {
            let mut told = Receipts::with_capacity(turn.commands.len());
            for command in &turn.commands {
                let id = command.task();
                if !command.is_by_holder() {
                    return None;
                }
                let row = board.get(id)?;
                if row.task.spec.workflow.is_some() && !matches!(command, Command::Start { .. }) {
                    return None;
                }
                let changes = transition(&Before::of(&row.task), command, now).ok()?;
                let receipt = receipt(&row.task, &changes);
                if changes.tasks.is_empty() || changes.notes.is_some() {
                    return None;
                }
                for change in changes.tasks {
                    board.change(change, command.is_by_holder());
                }
                told.push(Ok(receipt));
            }
            receipts.push(told);
        }
        Some(Believed { board, receipts })
    }

    /// Takes note of what is held from now on. What was changed is at a new place, or over.
    fn remember(&self, board: &Board, places: &HashMap<i64, String>, claimed: &[Row]) {
        let mut held = self.held();
        for row in board.rows() {
            held.remove(&row.task.id);
            if let Some(at) = places.get(&row.seq)
                && row.task.status.state.is_held()
            {
                held.insert(row.task.id, row.settled(at.clone()));
            }
        }
        if held.len() > super::MOST_HELD {
            held.clear();
        }
        held.extend(claimed.iter().map(|row| (row.task.id, row.clone())));
    }
}

/// What is to be written, and what is then to be answered, if all is as it is believed to be.
struct Believed {
    board: Board,
    receipts: Vec<Receipts>,
}

impl Tx {
    async fn turn_believed(&mut self, turns: &[Turn], believed: Believed) -> Result<Answered, Failure> {
        let Believed { mut board, receipts } = believed;
        let sent = board.send(self).await;
        self.claim_and_commit(turns, receipts, &board, &sent).await
    }

    /// Carries out turns after a look at what they are about. `held` is believed to be as it was, and needs
    /// no look.
    async fn turn_known(&mut self, turns: &[Turn], held: Vec<Row>) -> Result<Answered, Failure> {
        for term in turns.iter().filter_map(|turn| turn.term) {
            self.check_term(term).await?;
        }
        let commands: Vec<&Command> = turns.iter().flat_map(|turn| &turn.commands).collect();
        let mut board = Board::default();
        let believed: BTreeSet<TaskId> = held.iter().map(|row| row.task.id).collect();
        held.into_iter().for_each(|row| board.put(row));
        let (unreadable, now) = self.look_at(&commands, &mut board).await?;
        let around = self.look_around(&commands, &mut board).await?;
        let mut receipts = Vec::with_capacity(turns.len());
        for turn in turns {
            let mut told = Receipts::with_capacity(turn.commands.len());
            for command in &turn.commands {
                if let Some(rejected) = unreadable.get(&command.task()) {
                    told.push(Err(rejected.clone()));
                    continue;
                }
                if let Some(first) = board.get(command.task()).and_then(|row| command.first(&row.task, now))
                    && may_claim(command, &around, now).is_ok()
                {
                    if board_must_settle(&board, &first, &around, now) {
                        self.settle(&mut board).await?;
                    }
                    let _ = apply(&mut board, &first, &around, now);
                }
                if board_must_settle(&board, command, &around, now) {
                    self.settle(&mut board).await?;
                }
                let receipt = apply(&mut board, command, &around, now);
                // What changes nothing would not be found out to be wrong.
                if !receipt.as_ref().is_ok_and(|receipt| receipt.changed)
                    && believed.contains(&command.task())
                {
                    return Err(Failure::Moved);
                }
                told.push(receipt);
            }
            receipts.push(told);
        }
        self.follow_up(&mut board, now).await?;
        let lanes = std::mem::take(&mut board.lanes);
        let sent = board.send(self).await;
        if lanes.is_empty() {
            return self.claim_and_commit(turns, receipts, &board, &sent).await;
        }
        self.answers().await?;
        board.open(self.fill_lanes(&lanes).await?);
        self.claim_and_commit(turns, receipts, &board, &Sent::default()).await
    }

    /// Claims what turns ask for, after all that was `sent`, and makes everything durable.
    async fn claim_and_commit(
        &mut self,
        turns: &[Turn],
        receipts: Vec<Receipts>,
        board: &Board,
        sent: &Sent,
    ) -> Result<Answered, Failure> {
        let claims = self.send_claims(turns).await;
        let mut answers = self.commit().await?.into_iter();
        let written: Vec<Answer> = answers.by_ref().take(sent.statements).collect();
        let dealt = self.deal(turns, &claims, answers)?;
        Ok(self.answered(receipts, board, &places(sent, &written)?, dealt))
    }

    /// Locks and loads what commands are about and the board does not have, and the steps that they are
    /// likely to concern, in one round trip. Says what cannot be read, and what time it is: only now, for the
    /// locks may have been waited for.
    async fn look_at(
        &mut self,
        commands: &[&Command],
        board: &mut Board,
    ) -> Result<(HashMap<TaskId, Rejected>, Timestamp), Failure> {
        // Lone tasks have no workflow; there is nothing at the id that one would have.
        let workflow = |id: TaskId| match board.get(id) {
            Some(row) => row.task.spec.workflow,
            None => Some(WorkflowId::of(id)),
        };
        let workflows: BTreeSet<WorkflowId> =
            commands.iter().filter_map(|command| workflow(command.task())).collect();
        let mut missing: BTreeSet<TaskId> = commands.iter().map(|command| command.task()).collect();
        missing.retain(|id| board.get(*id).is_none());
        let (mut wanted, mut in_lanes) = (missing.clone(), missing.clone());
        for command in commands {
            if let Command::Finish { token, outcome: Outcome::Completed { .. }, .. } = command {
                for (id, has_lane) in self.inner.blueprints.concerned(token.task) {
                    wanted.insert(id);
                    in_lanes.extend(has_lane.then_some(id));
                }
            }
        }
        let has_workflows = !workflows.is_empty();
        if has_workflows {
            let workflows: Vec<_> = workflows.into_iter().map(wide).collect();
            self.send(|sql| &sql.lock_workflows, args![workflows => UUID_ARRAY]).await;
        } else if wanted.is_empty() {
            return Ok((HashMap::new(), self.now().await?));
        }
        if !in_lanes.is_empty() {
            self.send(|sql| &sql.lock_lanes_of, ids(&in_lanes)).await;
        }
        self.send(|sql| &sql.load_live, ids(&wanted)).await;
        self.send(|sql| &sql.now, args![self.inner.clock.given() => TIMESTAMPTZ]).await;
        let mut answers = self.answers().await?;
        let now = row::time(&answers.pop().unwrap_or_default().rows[0], 0)?;
        self.inner.clock.hear(now);
        let mut unreadable = HashMap::new();
        put_found(board, &answers.pop().unwrap_or_default(), &mut missing, &mut unreadable)?;
        if has_workflows {
            for row in &answers.swap_remove(0).rows {
                let stored = workflow_row::stored(row)?;
                board.workflows.insert(stored.workflow.id, Locked::new(stored));
            }
        }
        unreadable.extend(self.load(board, missing).await?);
        Ok((unreadable, now))
    }

    /// What time it is.
    pub(super) async fn now(&mut self) -> Result<Timestamp, Failure> {
        let answer = self.ask(|sql| &sql.now, args![self.inner.clock.given() => TIMESTAMPTZ]).await?;
        let now = row::time(&answer.rows[0], 0)?;
        self.inner.clock.hear(now);
        Ok(now)
    }

    /// Locks and loads the tasks that commands are about, those of lanes after the locks of these. A row that
    /// cannot be read holds up only what is about it.
    async fn load(
        &mut self,
        board: &mut Board,
        mut missing: BTreeSet<TaskId>,
    ) -> Result<HashMap<TaskId, Rejected>, Failure> {
        let mut unreadable = HashMap::new();
        if missing.is_empty() {
            return Ok(unreadable);
        }
        self.send(|sql| &sql.lock_lanes_of, ids(&missing)).await;
        // A task that moves between the two tables while they are read is found in neither: then read again.
        loop {
            for which in [(|sql| &sql.load_live) as super::tx::Which, |sql| &sql.load_ended] {
                let answer = self.ask(which, ids(&missing)).await?;
                put_found(board, &answer, &mut missing, &mut unreadable)?;
                if missing.is_empty() {
                    return Ok(unreadable);
                }
            }
            let exists = self.ask(|sql| &sql.exists, ids(&missing)).await?;
            if !row::get::<bool>(&exists.rows[0], 0)? {
                return Ok(unreadable);
            }
        }
    }

    /// Locks and loads more tasks, unless they are on the board already.
    pub(super) async fn load_tasks(&mut self, board: &mut Board, ids: Vec<TaskId>) -> Result<(), Failure> {
        let missing = ids.into_iter().filter(|id| board.get(*id).is_none()).collect();
        match self.load(board, missing).await?.into_values().next() {
            Some(unreadable) => Err(unreadable.into()),
            None => Ok(()),
        }
    }

    /// Locks and loads those tasks of a workflow, or of a part of it, that are not over.
    pub(super) async fn load_between(
        &mut self,
        board: &mut Board,
        range: &RangeInclusive<TaskId>,
    ) -> Result<(), Failure> {
        let values = args![uuid(*range.start()) => UUID, uuid(*range.end()) => UUID];
        for row in self.ask(|sql| &sql.load_unsettled, values).await?.rows {
            let (seq, task) = row::task(&row)?;
            if board.get(task.id).is_none() {
                board.put(found(&row, seq, task)?);
            }
        }
        Ok(())
    }

    /// Loads what commands look at beside their tasks.
    async fn look_around(&mut self, commands: &[&Command], board: &mut Board) -> Result<Around, Failure> {
        let mut around = Around::default();
        let (mut workers, mut told, mut looks_at_queues) = (BTreeSet::new(), BTreeSet::new(), false);
        for command in commands {
            if let Command::Claim { worker, .. } = command {
                workers.insert(worker.as_str().to_owned());
            }
            let Some(Row { seq, task, .. }) = board.get(command.task()) else { continue };
            if command.concerns_lanes_above()
                && let Some(above) = self.lanes_above(task).await?
            {
                around.lanes_above.insert(task.id, above);
            }
            match command.scope() {
                Scope::Task => {}
                Scope::TaskAndQueue => looks_at_queues = true,
                Scope::TaskAndNotes => drop(told.insert((*seq, i64::from(task.status.lease), task.id))),
                Scope::TaskAndHolder => {
                    workers.extend(task.status.worker.iter().map(|worker| worker.as_str().to_owned()));
                }
            }
        }
        if !workers.is_empty() {
            let ids: Vec<String> = workers.into_iter().collect();
            for row in self.ask(|sql| &sql.workers_of, args![ids => TEXT_ARRAY]).await?.rows {
                around.alive_until.extend([row::alive_until(&row)?]);
            }
        }
        if looks_at_queues {
            for row in self.ask(|sql| &sql.paused_queues, args![]).await?.rows {
                around.paused.insert((row::name(&row, 0)?, row::name(&row, 1)?));
            }
        }
        if !told.is_empty() {
            let ids: HashMap<i64, TaskId> = told.iter().map(|(seq, _, id)| (*seq, *id)).collect();
            let values = args![
                told.iter().map(|(seq, ..)| *seq).collect::<Vec<i64>>() => INT8_ARRAY,
                told.iter().map(|(_, lease, _)| *lease).collect::<Vec<i64>>() => INT8_ARRAY,
            ];
            for row in self.ask(|sql| &sql.notes_of, values).await?.rows {
                let (seq, notes) = row::notes(&row)?;
                if let Some(row) = ids.get(&seq).and_then(|id| board.get_mut(*id)) {
                    row.notes = Some(notes);
                }
            }
        }
        Ok(around)
    }

    /// Writes what was decided so far and gives slots, because the next command depends on who gets them.
    pub(super) async fn settle(&mut self, board: &mut Board) -> Result<(), Failure> {
        self.clear(board).await?;
        let known = board.rows().map(|row| row.task.id).chain(board.unborn()).collect();
        let lanes = std::mem::take(&mut board.lanes);
        board.send(self).await;
        self.answers().await?;
        board.open(self.fill_lanes(&lanes).await?);
        let mut fresh = Board::default();
        self.load(&mut fresh, known).await?;
        board.replace(fresh);
        Ok(())
    }

    /// What the turns are answered, now that all of it is durable.
    fn answered(
        &self,
        receipts: Vec<Receipts>,
        board: &Board,
        places: &HashMap<i64, String>,
        dealt: Dealt,
    ) -> Answered {
        self.inner.floors.open(&board.opened);
        self.inner.remember(board, places, &dealt.taken);
        // What was claimed as soon as it could be, nobody need come for.
        let is_new = |row: &&Row| board.get(row.task.id).is_some_and(Row::is_opened);
        let mut rings = board.rings;
        rings.claimable = rings.claimable.saturating_sub(dealt.taken.iter().filter(is_new).count() as u64);
        let claimed = dealt.claimed.into_iter().map(|claimed| claimed.unwrap_or(Ok(Vec::new())));
        let turned = receipts.into_iter().zip(claimed);
        (turned.map(|(receipts, claimed)| Turned { receipts, claimed }).collect(), rings)
    }
}

fn ids(tasks: &BTreeSet<TaskId>) -> Args {
    args![tasks.iter().map(|id| uuid(*id)).collect::<Vec<_>>() => UUID_ARRAY]
}

/// Puts tasks that were loaded on the board, unless they are there.
fn put_found(
    board: &mut Board,
    answer: &Answer,
    missing: &mut BTreeSet<TaskId>,
    unreadable: &mut HashMap<TaskId, Rejected>,
) -> Result<(), Failure> {
    for row in &answer.rows {
        let id = row::id(row, 1)?;
        missing.remove(&id);
        match row::task(row) {
            Ok((seq, task)) if board.get(id).is_none() => board.put(found(row, seq, task)?),
            Ok(_) => {}
            Err(row::Foreign(why)) => drop(unreadable.insert(id, Rejected::Unreadable { task: id, why })),
        }
    }
    Ok(())
}

/// A task that was loaded, with the place of its row and what its history needs.
pub(super) fn found(row: &tokio_postgres::Row, seq: i64, task: Task) -> Result<Row, row::Foreign> {
    let (at, plain, actor) =
        (row::get(row, AFTER_TASK)?, row::get(row, AFTER_TASK + 1)?, row::get(row, AFTER_TASK + 2)?);
    let ready_at = row::optional_time(row, AFTER_TASK + 3)?;
    Ok(Row::new(seq, at, task, Past { plain, actor, ready_at }))
}

/// The new places of rows that were updated.
fn places(sent: &Sent, written: &[Answer]) -> Result<HashMap<i64, String>, Failure> {
    let Some(answer) = sent.update.and_then(|at| written.get(at)) else { return Ok(HashMap::new()) };
    answer.rows.iter().map(|row| Ok((row::get(row, 0)?, row::get(row, 1)?))).collect()
}

fn receipt(task: &Task, changes: &Changes) -> Receipt {
    let status = changes.tasks.first().map_or(&task.status, |change| &change.after);
    Receipt {
        task: task.id,
        kind: task.spec.kind.clone(),
        state: status.state,
        attempt: status.attempt,
        lease: status.lease,
        changed: *changes != Changes::default(),
    }
}

/// Refuses a claim by a worker that is not alive.
fn may_claim(command: &Command, around: &Around, now: Timestamp) -> Result<(), Rejected> {
    match command {
        Command::Claim { worker, .. } if around.alive_until.get(worker).is_none_or(|until| *until <= now) => {
            Err(Rejected::InvalidWorker { worker: worker.clone() })
        }
        _ => Ok(()),
    }
}

/// What the core decides about a command.
fn decide(
    board: &Board,
    command: &Command,
    around: &Around,
    now: Timestamp,
) -> Result<(Receipt, Changes), Rejected> {
    may_claim(command, around, now)?;
    let id = command.task();
    let Some(Row { task, notes, .. }) = board.get(id) else { return Err(Rejected::NotFound { task: id }) };
    let notes = notes.as_ref().filter(|notes| notes.lease == task.status.lease);
    let paused = around.paused.contains(&(task.spec.namespace.clone(), task.spec.queue.clone()));
    let holder = task.status.worker.as_ref();
    let alive_until = holder.and_then(|holder| around.alive_until.get(holder)).copied();
    let workflow = task.spec.workflow.and_then(|id| board.workflows.get(&id));
    let workflow = workflow.map(|locked| &locked.stored.workflow);
    let lanes_above = around.lanes_above.get(&id);
    let before = Before { task, paused, notes, alive_until, workflow, lanes_above };
    let changes = transition(&before, command, now)?;
    Ok((receipt(task, &changes), changes))
}

/// Carries out one command on the board. A refusal changes nothing and hinders nobody.
fn apply(board: &mut Board, command: &Command, around: &Around, now: Timestamp) -> Result<Receipt, Rejected> {
    let (receipt, changes) = decide(board, command, around, now)?;
    if let Some(task) = board.get(command.task()).map(|row| row.task.clone()) {
        board.apply(&task, changes, command.is_by_holder());
    }
    Ok(receipt)
}

/// Whether a command depends on who is given the slots that those before it have freed, or is about a task
/// that they have made or cleared, or clears a list that they have made or changed. Those who only leave a
/// lane do not.
fn board_must_settle(board: &Board, command: &Command, around: &Around, now: Timestamp) -> bool {
    if board.is_cleared(command.task()) {
        return true;
    }
    let Some(row) = board.get(command.task()) else {
        return board.unborn().any(|id| id == command.task());
    };
    if let Command::Finish { outcome: Outcome::Expanded { .. }, .. } = command
        && row.task.status.lease > 1
        && board.is_unwritten(&WorkflowId::of(row.task.id).items(Place::of(row.task.id).step))
    {
        return true;
    }
    let Some(lane) = lane_of(&row.task.spec) else { return false };
    if !board.lanes.contains(&lane) {
        return false;
    }
    let leaves = |changes: &Changes| {
        let mut changes = changes.tasks.iter();
        row.task.status.slot && changes.all(|change| change.after.state.is_final())
    };
    !decide(board, command, around, now).is_ok_and(|(_, changes)| leaves(&changes))
}

/// By which turns can be carried out together: no more commands, and no more to claim, than one may have.
pub(super) fn weight(turn: &Turn) -> usize {
    let claimed = turn.claim.as_ref().map_or(0, |claim| claim.limit);
    turn.commands.len().max(claimed).max(1)
}

/// Tasks that workers of this process hold, as they were left.
pub(super) type Held = HashMap<TaskId, Row>;
