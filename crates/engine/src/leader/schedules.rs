//! Chore: submit what schedules ask for, once per slot.

use tracing::{info, warn};
use windlass_core::{By, Command, Firing, Rejected, Schedule, TaskId, Timestamp, limits};
use windlass_store::{Error, Turn};

use super::Reign;
use crate::cron::Cron;

/// A schedule whose times cannot be found out here is looked at again after this long.
const UNREADABLE_FOR: std::time::Duration = std::time::Duration::from_secs(300);

impl Reign<'_> {
    /// Fires each of `schedules`, whose next slot has come, and says when the first of them is due again. One
    /// that cannot be fired delays only itself.
    pub(super) async fn fire(
        &self,
        schedules: Vec<Schedule>,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, Error> {
        let mut next = None;
        for schedule in schedules {
            let firing = self.firing(&schedule, now).await?;
            next = next.into_iter().chain([firing.next_at]).min();
            match self.shared.store().fire(firing.clone(), Some(self.term)).await {
                Ok(_) => {}
                Err(Error::Rejected(Rejected::NotLeader { term })) => {
                    return Err(Rejected::NotLeader { term }.into());
                }
                // Another leader was first, or an operator changed it: it will be listed again if it is due.
                Err(Error::Rejected(Rejected::ScheduleMoved { .. } | Rejected::UnknownSchedule { .. })) => {}
                Err(error) if error.rejected().is_some() => {
                    warn!(schedule = %schedule.name, %error, "its task was refused; the slot is left out");
                    let without = firing.refused(&error);
                    match self.shared.store().fire(without, Some(self.term)).await {
                        Err(error) if error.rejected().is_none() => return Err(error),
                        _ => {}
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(next.filter(|next| *next != Timestamp::MAX))
    }

    /// What to do about the slots of one schedule that have come.
    async fn firing(&self, schedule: &Schedule, now: Timestamp) -> Result<Firing, Error> {
        let firing = Firing {
            namespace: schedule.namespace.clone(),
            name: schedule.name.clone(),
            expected: schedule.next_at,
            next_at: now.plus(UNREADABLE_FOR),
            last_at: None,
            tasks: Vec::new(),
            skipped: 0,
            left_out: None,
            error: None,
        };
        let cron = match Cron::parse(&schedule.cron, &schedule.zone) {
            Ok(cron) => cron,
            Err(invalid) => {
                warn!(schedule = %schedule.name, %invalid, "its times cannot be found out");
                return Ok(Firing { error: Some(invalid.to_string()), ..firing });
            }
        };
        let before = schedule.next_at.minus(std::time::Duration::from_micros(1));
        let come = cron.last_slots(before, now, limits::COUNTED_SLOTS);
        let previous = self.previous(schedule.last_task).await?;
        let plan = schedule.plan(&come, previous, now);
        if let Some(task) = plan.cancel {
            let by = By { actor: Some(format!("schedule {}", schedule.name)), note: Some("replaced".into()) };
            let commands = vec![Command::Cancel { task, by }];
            self.shared.store().turn(Turn { commands, claim: None, term: Some(self.term) }).await?;
        }
        let task = |slot: &Timestamp| schedule.task((self.shared.setup.new_id)(), Some(*slot));
        let tasks: Vec<_> = plan.slots.iter().map(task).collect();
        info!(schedule = %schedule.name, tasks = tasks.len(), left_out = plan.left_out, "fires");
        Ok(Firing {
            next_at: cron.next_after(now).unwrap_or(Timestamp::MAX),
            last_at: plan.slots.last().copied(),
            skipped: plan.skipped,
            left_out: plan.left_out,
            tasks,
            ..firing
        })
    }

    async fn previous(&self, task: Option<TaskId>) -> Result<Option<windlass_core::State>, Error> {
        let Some(task) = task else { return Ok(None) };
        Ok(self.shared.store().task(task).await?.map(|record| record.task.status.state))
    }
}
