//! Chore: schedules by a clock that was set back. The store itself sees to tasks, workers and the leader when
//! a leader stands again.

use tracing::{info, warn};
use windlass_core::{Firing, Rejected, Schedule, Timestamp, set_back};
use windlass_store::Error;

use super::Reign;
use crate::cron::Cron;

impl Reign<'_> {
    /// Follows the store's clock, if it was set back since the last look; at the first look of a term that
    /// may have been before it. Says whether anything may have become due by that.
    pub(super) async fn follow_clock(&mut self, now: Timestamp) -> Result<bool, Error> {
        let last = self.clock.replace(now);
        if last.is_some() && set_back(last, now).is_none() {
            return Ok(false);
        }
        if last.is_some() {
            warn!(%now, was = ?last, "the clock was set back; what was counted by it is counted anew");
            self.renew().await?;
        }
        for schedule in self.shared.store().schedules().await? {
            self.bring_forward(schedule, now).await?;
        }
        Ok(last.is_some())
    }

    /// A schedule goes on with its first slot from now on, and not with the one that was next by the wrong
    /// clock. Slots that were fired by that clock are not fired again: their tasks have the same keys.
    async fn bring_forward(&self, schedule: Schedule, now: Timestamp) -> Result<(), Error> {
        let Ok(cron) = Cron::parse(&schedule.cron, &schedule.zone) else { return Ok(()) };
        let next_at = cron.next_after(now).unwrap_or(Timestamp::MAX);
        if schedule.paused || next_at >= schedule.next_at {
            return Ok(());
        }
        info!(schedule = %schedule.name, %next_at, was = %schedule.next_at, "brought forward");
        let firing = Firing {
            namespace: schedule.namespace,
            name: schedule.name,
            expected: schedule.next_at,
            next_at,
            last_at: None,
            tasks: Vec::new(),
            skipped: 0,
            left_out: None,
            error: schedule.error,
        };
        match self.shared.store().fire(firing, Some(self.term)).await {
            // Somebody else has moved it.
            Err(Error::Rejected(Rejected::ScheduleMoved { .. } | Rejected::UnknownSchedule { .. })) => Ok(()),
            answer => answer.map(drop),
        }
    }
}
