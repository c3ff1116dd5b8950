//! Schedules: making, forgetting and firing them.

use std::sync::Arc;

use windlass_core::{Firing, Invalid, Name, NewSchedule, Rejected, Schedule, Term, Timestamp, limits};

use super::Inner;
use super::board::Board;
use super::failure::Failure;
use super::row::{self, moment, signed, uuid};
use super::tx::{Tx, args};
use crate::error::Result;
use crate::request::{Rings, Submitted};

impl Inner {
    pub(super) async fn set_schedule(self: &Arc<Self>, new: &NewSchedule) -> Result<Schedule> {
        let schedule = self
            .transaction(async |tx: &mut Tx| {
                let answer =
                    tx.ask(|sql| &sql.lock_schedules, args![tx.inner.clock.given() => TIMESTAMPTZ]).await?;
                let (count, now): (i64, _) = (row::get(&answer.rows[0], 0)?, row::time(&answer.rows[0], 1)?);
                let before = tx.schedule(&new.namespace, &new.name).await?;
                if before.is_none() && count >= signed(limits::SCHEDULES) {
                    let one_more = limits::SCHEDULES + 1;
                    return Err(Invalid::number("number of schedules", one_more, "at most 10000").into());
                }
                let schedule = new.clone().admit(before.as_ref(), now);
                tx.put_schedule(&schedule).await;
                tx.commit().await?;
                Ok(schedule)
            })
            .await?;
        self.ring(Rings { timed: 1, ..Rings::default() });
        Ok(schedule)
    }

    pub(super) async fn remove_schedule(self: &Arc<Self>, namespace: &Name, name: &Name) -> Result<bool> {
        let values = || args![namespace.to_string() => TEXT, name.to_string() => TEXT];
        Ok(self.write(|sql| &sql.delete_schedule, values).await? > 0)
    }

    /// Submits what is due and moves the schedule on, or does nothing.
    pub(super) async fn fire(
        self: &Arc<Self>,
        firing: &Firing,
        term: Option<Term>,
    ) -> Result<Vec<Submitted>> {
        let (submitted, rings) = self
            .transaction(async |tx: &mut Tx| {
                if let Some(term) = term {
                    tx.check_term(term).await?;
                }
                let Some(before) = tx.schedule(&firing.namespace, &firing.name).await? else {
                    return Err(Rejected::UnknownSchedule { name: firing.name.to_string() }.into());
                };
                firing.check(&before)?;
                let mut board = Board::default();
                let submitted = tx.submit_known(firing.tasks.clone(), &mut board).await?;
                let answer = tx.ask(|sql| &sql.now, args![tx.inner.clock.given() => TIMESTAMPTZ]).await?;
                let now: Timestamp = row::time(&answer.rows[0], 0)?;
                let tasks: Vec<_> = submitted.iter().map(|one| (one.id, one.created)).collect();
                tx.put_schedule(&firing.fired(&before, &tasks, now)).await;
                let rings = tx.commit_board(board).await?;
                Ok((submitted, rings))
            })
            .await?;
        self.ring(rings);
        Ok(submitted)
    }
}

impl Tx {
    async fn schedule(&mut self, namespace: &Name, name: &Name) -> Result<Option<Schedule>, Failure> {
        let values = args![namespace.to_string() => TEXT, name.to_string() => TEXT];
        let answer = self.ask(|sql| &sql.schedule, values).await?;
        Ok(answer.rows.first().map(row::schedule).transpose()?)
    }

    async fn put_schedule(&mut self, schedule: &Schedule) {
        let values = args![
            schedule.namespace.to_string() => TEXT,
            schedule.name.to_string() => TEXT,
            schedule.cron.clone() => TEXT,
            schedule.zone.clone() => TEXT,
            schedule.template.to_text() => TEXT,
            schedule.missed.to_string() => TEXT,
            schedule.overlap.word() => TEXT,
            schedule.paused => BOOL,
            moment(schedule.next_at) => TIMESTAMPTZ,
            schedule.last_at.map(moment) => TIMESTAMPTZ,
            schedule.last_task.map(uuid) => UUID,
            signed(schedule.fired) => INT8,
            signed(schedule.skipped) => INT8,
            schedule.error.clone() => TEXT,
            moment(schedule.updated_at) => TIMESTAMPTZ,
            schedule.left_out.clone() => TEXT,
        ];
        self.send(|sql| &sql.put_schedule, values).await;
    }
}
