//! Folding: calls that come while a transaction is under way are carried out together by the next. An idle
//! store adds no delay, a busy one batches by itself.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio::task::spawn_local;
use windlass_core::{NewTask, limits};

use super::board::Board;
use super::submit::is_plain;
use super::turn::weight;
use super::tx::Tx;
use super::{Inner, failure::Failure};
use crate::error::{Error, Result};
use crate::request::{Rings, Submitted, Turn, Turned};

/// Transactions of one kind that may be under way at once.
pub(super) const MOST_FLIGHTS: usize = 2;

/// A call, and whom to answer.
type Call<Q, A> = (Q, oneshot::Sender<Result<A>>);

/// Calls of one kind that wait for a transaction.
#[derive(Debug)]
pub(super) struct Line<Q, A>(Mutex<(VecDeque<Call<Q, A>>, usize)>);

impl<Q, A> Default for Line<Q, A> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<Q, A> Line<Q, A> {
    fn state(&self) -> MutexGuard<'_, (VecDeque<Call<Q, A>>, usize)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gets in line. Says whether a flight is to be started.
    fn enter(&self, call: Q) -> (oneshot::Receiver<Result<A>>, bool) {
        let (answer, receiver) = oneshot::channel();
        let mut state = self.state();
        state.0.push_back((call, answer));
        let starts = state.1 < MOST_FLIGHTS;
        state.1 += usize::from(starts);
        (receiver, starts)
    }

    /// As many calls as fit into one transaction; none, and one flight less, if nobody waits.
    fn take(&self, weight: impl Fn(&Q) -> usize) -> Vec<Call<Q, A>> {
        let mut state = self.state();
        let (mut calls, mut sum) = (Vec::new(), 0);
        while let Some((call, _)) = state.0.front() {
            sum += weight(call);
            if sum > limits::BATCH && !calls.is_empty() {
                break;
            }
            calls.extend(state.0.pop_front());
        }
        if calls.is_empty() {
            state.1 -= 1;
        }
        calls
    }
}

impl Inner {
    pub(super) async fn submit(self: Arc<Self>, tasks: Vec<NewTask>) -> Result<Vec<Submitted>> {
        let (answer, starts) = self.submits.enter(tasks);
        if starts {
            spawn_local(self.clone().fly_submits());
        }
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    pub(super) async fn turn(self: Arc<Self>, turn: Turn) -> Result<Turned> {
        let (answer, starts) = self.turns.enter(turn);
        if starts {
            spawn_local(self.clone().fly_turns());
        }
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    async fn fly_submits(self: Arc<Self>) {
        loop {
            let calls = self.submits.take(Vec::len);
            if calls.is_empty() {
                return;
            }
            let (batches, callers): (Vec<Vec<NewTask>>, Vec<_>) = calls.into_iter().unzip();
            if let Some(answers) = self.submit_together(&batches).await {
                // A caller who went away does not want it.
                callers.into_iter().zip(answers).for_each(|(caller, answer)| drop(caller.send(answer)));
                continue;
            }
            for (caller, batch) in callers.into_iter().zip(batches) {
                let _ = caller.send(self.submit_alone(&batch).await);
            }
        }
    }

    /// Submits several batches in one transaction, if all their tasks are new; otherwise nothing.
    async fn submit_together(
        self: &Arc<Self>,
        batches: &[Vec<NewTask>],
    ) -> Option<Vec<Result<Vec<Submitted>>>> {
        if !batches.iter().all(|batch| is_plain(batch)) {
            return None;
        }
        let done = self
            .try_transaction(&async |tx: &mut Tx| {
                let mut board = Board::default();
                let submitted = tx.submit_new(batches.concat(), &mut board).await?;
                Ok((submitted, tx.commit_board(board).await?))
            })
            .await;
        match done {
            Ok((submitted, rings)) => {
                self.ring(rings);
                let mut submitted = submitted.into_iter();
                Some(batches.iter().map(|batch| Ok(submitted.by_ref().take(batch.len()).collect())).collect())
            }
            Err(Failure::Moved | Failure::Again(_)) => None,
            Err(Failure::Final(error)) => Some(batches.iter().map(|_| Err(error.clone())).collect()),
        }
    }

    /// Submits one batch after a look at what is there.
    async fn submit_alone(self: &Arc<Self>, batch: &[NewTask]) -> Result<Vec<Submitted>> {
        let (submitted, rings) = self
            .transaction(async |tx: &mut Tx| {
                let mut board = Board::default();
                let submitted = tx.submit_known(batch.to_vec(), &mut board).await?;
                Ok((submitted, tx.commit_board(board).await?))
            })
            .await?;
        self.ring(rings);
        Ok(submitted)
    }

    async fn fly_turns(self: Arc<Self>) {
        loop {
            let calls = self.turns.take(weight);
            if calls.is_empty() {
                return;
            }
            let (turns, callers): (Vec<Turn>, Vec<_>) = calls.into_iter().unzip();
            // A leader's turn that is refused is refused as a whole: it goes by itself.
            let together = turns.len() == 1 || turns.iter().all(|turn| turn.term.is_none());
            let answers = if together {
                self.turn_together(&turns).await
            } else {
                let mut answers = Vec::with_capacity(turns.len());
                for turn in &turns {
                    answers.extend(self.turn_together(std::slice::from_ref(turn)).await);
                }
                answers
            };
            callers.into_iter().zip(answers).for_each(|(caller, answer)| drop(caller.send(answer)));
        }
    }

    async fn turn_together(self: &Arc<Self>, turns: &[Turn]) -> Vec<Result<Turned>> {
        match self.turns(turns).await {
            Ok((turned, rings)) => {
                self.ring(rings);
                turned.into_iter().map(Ok).collect()
            }
            Err(error) => turns.iter().map(|_| Err(error.clone())).collect(),
        }
    }
}

impl Tx {
    /// Writes what the board has gathered, gives slots, and commits. Says what is to be rung.
    pub(super) async fn commit_board(&mut self, mut board: Board) -> Result<Rings, Failure> {
        let lanes = std::mem::take(&mut board.lanes);
        board.send(self).await;
        if !lanes.is_empty() {
            self.answers().await?;
            board.open(self.fill_lanes(&lanes).await?);
        }
        self.commit().await?;
        self.inner.floors.open(&board.opened);
        Ok(board.rings)
    }
}

/// The flight that had the call has vanished; whether it did its work nobody knows.
fn gone() -> Error {
    Error::Unknown("the writer was stopped by a bug".into())
}
