//! Workers, the leader, and the settings that operators change: paused queues and known entities.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::{
    Entity, Leadership, Lease, Name, NewWorker, Rejected, Task, TaskId, Term, Timestamp, Worker, WorkerId,
    campaign, resign, set_back,
};

use super::Inner;
use super::failure::Failure;
use super::row::{self, moment, signed, uuid};
use super::tx::{Args, Tx, Which, args};
use crate::error::Result;
use crate::request::{Pulse, Rings};
use crate::text::names_to_json;

impl Inner {
    pub(super) async fn register(self: &Arc<Self>, new: &NewWorker) -> Result<Worker> {
        let worker = self
            .transaction(async |tx: &mut Tx| {
                let answer = tx.ask(|sql| &sql.now, args![tx.inner.clock.given() => TIMESTAMPTZ]).await?;
                let worker = new.clone().admit(row::time(&answer.rows[0], 0)?);
                tx.send(|sql| &sql.put_worker, worker_args(&worker)).await;
                // The statement compares the secrets itself, so that of two that register at once only one
                // does.
                let is_put = tx.commit().await?[0].affected > 0;
                Ok(is_put.then_some(worker))
            })
            .await?;
        let Some(worker) = worker else {
            return Err(Rejected::WrongWorkerSecret { worker: new.id.clone() }.into());
        };
        self.ring(Rings { timed: 1, ..Rings::default() });
        Ok(worker)
    }

    pub(super) async fn deregister(self: &Arc<Self>, worker: &WorkerId) -> Result<()> {
        let values = || args![worker.as_str().to_owned() => TEXT];
        let known = self.write(|sql| &sql.delete_worker, values).await?;
        self.ring(Rings { timed: u64::from(known > 0), ..Rings::default() });
        Ok(())
    }

    pub(super) async fn heartbeat(
        self: &Arc<Self>,
        worker: &WorkerId,
        held: &[(TaskId, Lease)],
    ) -> Result<Pulse> {
        let answers = self
            .transaction(async |tx: &mut Tx| {
                let now = tx.inner.clock.given();
                let values = args![worker.as_str().to_owned() => TEXT, now => TIMESTAMPTZ];
                tx.send(|sql| &sql.heartbeat, values).await;
                let ids: Vec<_> = held.iter().map(|(id, _)| uuid(*id)).collect();
                tx.send(|sql| &sql.held, args![ids => UUID_ARRAY]).await;
                tx.commit().await
            })
            .await?;
        if answers[0].affected == 0 {
            return Err(Rejected::InvalidWorker { worker: worker.clone() }.into());
        }
        let mut tasks: HashMap<TaskId, Task> = HashMap::new();
        for row in &answers[1].rows {
            let (_, task) = row::task(row).map_err(|error| Failure::from(error).error())?;
            tasks.insert(task.id, task);
        }
        let mut pulse = Pulse::default();
        for (id, lease) in held {
            pulse.sort(worker, *id, *lease, tasks.get(id));
        }
        Ok(pulse)
    }

    pub(super) async fn campaign(
        self: &Arc<Self>,
        candidate: &WorkerId,
        lease: Duration,
    ) -> Result<Option<Leadership>> {
        self.transaction(async |tx: &mut Tx| {
            let (leader, now) = tx.leader().await?;
            let leader = tx.follow_clock(leader, now).await?;
            let won = campaign(leader.as_ref(), candidate, lease, now);
            tx.put_leader(won).await
        })
        .await
    }

    pub(super) async fn resign(self: &Arc<Self>, candidate: &WorkerId, term: Term) -> Result<()> {
        self.transaction(async |tx: &mut Tx| {
            let (leader, _) = tx.leader().await?;
            tx.put_leader(resign(leader.as_ref(), candidate, term)).await?;
            Ok(())
        })
        .await
    }

    pub(super) async fn pause(self: &Arc<Self>, namespace: &Name, queue: &Name, paused: bool) -> Result<()> {
        let values = || args![namespace.to_string() => TEXT, queue.to_string() => TEXT];
        let which =
            if paused { (|sql| &sql.pause_queue) as Which } else { (|sql| &sql.resume_queue) as Which };
        self.write(which, values).await?;
        if !paused {
            self.ring(Rings { claimable: 1, ..Rings::default() });
        }
        Ok(())
    }

    pub(super) async fn set_entity(
        self: &Arc<Self>,
        namespace: &Name,
        entity: &Entity,
        known: bool,
    ) -> Result<bool> {
        let values = || args![namespace.to_string() => TEXT, entity.as_str().to_owned() => TEXT];
        let which =
            if known { (|sql| &sql.put_entity) as Which } else { (|sql| &sql.delete_entity) as Which };
        Ok(self.write(which, values).await? > 0)
    }

    /// One statement that writes; says how many rows it touched.
    pub(super) async fn write(
        self: &Arc<Self>,
        which: Which,
        values: impl Fn() -> Args + Send + Sync,
    ) -> Result<u64> {
        let answers = self
            .transaction(async |tx: &mut Tx| {
                tx.send(which, values()).await;
                tx.commit().await
            })
            .await?;
        Ok(answers.first().map_or(0, |answer| answer.affected))
    }
}

impl Tx {
    /// The leader, whom nobody else can replace meanwhile, and what time it is.
    async fn leader(&mut self) -> Result<(Option<Leadership>, Timestamp), Failure> {
        let answer = self.ask(|sql| &sql.lock_leader, args![self.inner.clock.given() => TIMESTAMPTZ]).await?;
        Ok((row::leadership(&answer.rows[0])?, row::time(&answer.rows[0], 3)?))
    }

    /// If the clock was set back, what was counted from the present is counted anew; so is the leader's
    /// lease.
    async fn follow_clock(
        &mut self,
        leader: Option<Leadership>,
        now: Timestamp,
    ) -> Result<Option<Leadership>, Failure> {
        let answer = self.ask(|sql| &sql.last_heartbeat, args![]).await?;
        let Some(by) = set_back(row::optional_time(&answer.rows[0], 0)?, now) else { return Ok(leader) };
        self.send(|sql| &sql.set_back_workers, args![moment(now) => TIMESTAMPTZ]).await;
        let values = args![moment(now) => TIMESTAMPTZ, signed(by.as_micros()) => INT8];
        self.send(|sql| &sql.set_back_tasks, values).await;
        let leader = leader.map(|leader| leader.set_back(by));
        if let Some(Leadership { holder, term, until }) = &leader {
            let values = args![holder.as_str().to_owned() => TEXT, signed(*term) => INT8, moment(*until) => TIMESTAMPTZ];
            self.send(|sql| &sql.put_leader, values).await;
        }
        Ok(leader)
    }

    async fn put_leader(&mut self, leader: Option<Leadership>) -> Result<Option<Leadership>, Failure> {
        if let Some(Leadership { holder, term, until }) = &leader {
            let values = args![
                holder.as_str().to_owned() => TEXT,
                signed(*term) => INT8,
                moment(*until) => TIMESTAMPTZ,
            ];
            self.send(|sql| &sql.put_leader, values).await;
        }
        self.commit().await?;
        Ok(leader)
    }

    /// Refuses what a leader does after its term.
    pub(super) async fn check_term(&mut self, term: Term) -> Result<(), Failure> {
        let answer =
            self.ask(|sql| &sql.check_leader, args![self.inner.clock.given() => TIMESTAMPTZ]).await?;
        let (leader, now) = (row::leadership(&answer.rows[0])?, row::time(&answer.rows[0], 3)?);
        if !leader.is_some_and(|leader| leader.is_current(term, now)) {
            return Err(Rejected::NotLeader { term }.into());
        }
        Ok(())
    }
}

fn worker_args(worker: &Worker) -> Args {
    args![
        worker.id.as_str().to_owned() => TEXT,
        worker.namespace.to_string() => TEXT,
        worker.host.clone() => TEXT,
        worker.version.clone() => TEXT,
        i64::from(worker.pool_size) => INT8,
        names_to_json(&worker.queues) => TEXT,
        names_to_json(&worker.kinds) => TEXT,
        signed(worker.dead_after.as_micros()) => INT8,
        moment(worker.heartbeat_at) => TIMESTAMPTZ,
        worker.secret.map(|digest| digest.bytes().to_vec()) => BYTEA,
    ]
}
