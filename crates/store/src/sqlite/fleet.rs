//! Workers, the leader, and the settings that operators change: paused queues and known entities.

use std::time::Duration;

use rusqlite::params;
use windlass_core::{
    Entity, Leadership, Lease, Name, NewWorker, Rejected, TaskId, Term, Worker, WorkerId, campaign, resign,
    set_back,
};

use super::row;
use super::tx::Tx;
use crate::error::Result;
use crate::request::Pulse;

impl Tx<'_, '_> {
    pub(super) fn register(&mut self, worker: NewWorker) -> Result<Worker> {
        let worker = worker.admit(self.now);
        // The statement compares the secrets itself.
        if self.write_with(|sql| &mut sql.put_worker, |statement| row::put_worker(statement, &worker))? == 0 {
            return Err(Rejected::WrongWorkerSecret { worker: worker.id }.into());
        }
        self.ledger.rings.timed += 1;
        Ok(worker)
    }

    pub(super) fn heartbeat(&mut self, worker: &WorkerId, held: Vec<(TaskId, Lease)>) -> Result<Pulse> {
        let now = self.now.as_micros();
        if self.write(|sql| &mut sql.heartbeat, params![worker.as_str(), now])? == 0 {
            return Err(Rejected::InvalidWorker { worker: worker.clone() }.into());
        }
        let mut pulse = Pulse::default();
        for (id, lease) in held {
            let task = self.task(id)?;
            pulse.sort(worker, id, lease, task.as_ref().map(|row| &row.1));
        }
        Ok(pulse)
    }

    pub(super) fn deregister(&mut self, worker: &WorkerId) -> Result<()> {
        let known = self.write(|sql| &mut sql.delete_worker, [worker.as_str()])?;
        self.ledger.rings.timed += u64::from(known > 0);
        Ok(())
    }

    pub(super) fn campaign(&mut self, candidate: &WorkerId, lease: Duration) -> Result<Option<Leadership>> {
        let leader = self.read(|sql| &mut sql.leader, [], row::leadership)?;
        let leader = self.follow_clock(leader)?;
        let won = campaign(leader.as_ref(), candidate, lease, self.now);
        if let Some(leader) = &won {
            self.put_leader(leader)?;
        }
        Ok(won)
    }

    /// If the clock was set back, what was counted from the present is counted anew; so is the leader's
    /// lease.
    fn follow_clock(&mut self, leader: Option<Leadership>) -> Result<Option<Leadership>> {
        let moment = |row: &rusqlite::Row<'_>| row::optional_time(row, 0);
        let last = self.read(|sql| &mut sql.last_heartbeat, [], moment)?.flatten();
        let Some(by) = set_back(last, self.now) else { return Ok(leader) };
        let (now, micros) = (self.now.as_micros(), i64::try_from(by.as_micros()).unwrap_or(i64::MAX));
        self.write(|sql| &mut sql.set_back_workers, [now])?;
        self.write(|sql| &mut sql.set_back_tasks, [now, micros])?;
        self.ledger.rings.timed += 1;
        let leader = leader.map(|leader| leader.set_back(by));
        if let Some(leader) = &leader {
            self.put_leader(leader)?;
        }
        Ok(leader)
    }

    pub(super) fn resign(&mut self, candidate: &WorkerId, term: Term) -> Result<()> {
        let leader = self.read(|sql| &mut sql.leader, [], row::leadership)?;
        resign(leader.as_ref(), candidate, term).map_or(Ok(()), |free| self.put_leader(&free))
    }

    /// Refuses what a leader does after its term.
    pub(super) fn check_term(&mut self, term: Option<Term>) -> Result<()> {
        let Some(term) = term else { return Ok(()) };
        let leader = self.read(|sql| &mut sql.leader, [], row::leadership)?;
        if !leader.is_some_and(|leader| leader.is_current(term, self.now)) {
            return Err(Rejected::NotLeader { term }.into());
        }
        Ok(())
    }

    fn put_leader(&mut self, leader: &Leadership) -> Result<()> {
        let term = i64::try_from(leader.term).unwrap_or(i64::MAX);
        let values = params![leader.holder.as_str(), term, leader.until.as_micros()];
        self.write(|sql| &mut sql.put_leader, values)?;
        Ok(())
    }

    pub(super) fn pause(&mut self, namespace: &Name, queue: &Name, paused: bool) -> Result<()> {
        let values = [&**namespace, &**queue];
        if paused {
            self.write(|sql| &mut sql.pause_queue, values)?;
        } else {
            self.write(|sql| &mut sql.resume_queue, values)?;
            self.ledger.rings.claimable += 1;
        }
        Ok(())
    }

    pub(super) fn set_entity(&mut self, namespace: &Name, entity: &Entity, known: bool) -> Result<bool> {
        let values = [&**namespace, entity.as_str()];
        let changed = if known {
            self.write(|sql| &mut sql.put_entity, values)?
        } else {
            self.write(|sql| &mut sql.delete_entity, values)?
        };
        Ok(changed > 0)
    }
}
