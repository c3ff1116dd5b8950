//! Chore: promote what has waited long enough, expire what a dead worker holds. The store says what, as
//! commands.

use tokio::time::Instant;
use tracing::warn;
use windlass_core::Timestamp;
use windlass_store::{Due, Error, Turn};

use super::Reign;

/// Commands of one look.
const PAGE: usize = 500;

/// Rows that cannot be moved, beyond which no more is asked for.
const MOST_STUCK: usize = 10_000;

impl Reign<'_> {
    /// Does all that is due and says when the next is.
    pub(super) async fn do_what_is_due(&mut self) -> Result<Option<Instant>, Error> {
        loop {
            let (before, limit) = (self.stuck, PAGE + self.stuck.min(MOST_STUCK));
            let Due { commands, schedules, next, silent_at, now } = self.shared.store().due(limit).await?;
            let looked = Instant::now();
            if self.follow_clock(now).await? {
                continue;
            }
            let (asked, slots) = (commands.len(), schedules.len());
            let next_slot = self.fire(schedules, now).await?;
            let moved = self.carry_out(commands).await?;
            self.stuck = asked - moved;
            // A full page may have more behind it, unless all of it refuses to move and no more can be asked
            // for.
            let more = asked >= limit && (moved > 0 || (self.stuck > before && before < MOST_STUCK));
            if slots < limit && !more {
                let then = |moment: Timestamp| looked + moment.since(now);
                return Ok([next, next_slot, silent_at].into_iter().flatten().min().map(then));
            }
        }
    }

    /// Carries out commands; says how many changed something. One that is refused delays only itself.
    async fn carry_out(&self, mut commands: Vec<windlass_core::Command>) -> Result<usize, Error> {
        let mut moved = 0;
        while !commands.is_empty() {
            let rest = commands.split_off(commands.len().min(PAGE));
            let turn = Turn { commands, claim: None, term: Some(self.term) };
            for receipt in self.shared.store().turn(turn).await?.receipts {
                match receipt {
                    Ok(_) => moved += 1,
                    Err(rejected) => warn!(%rejected, "what is due was refused"),
                }
            }
            commands = rest;
        }
        Ok(moved)
    }
}
