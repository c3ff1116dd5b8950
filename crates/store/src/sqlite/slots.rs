//! Slots of lanes: giving them to those who wait, and making sure that nobody waits beside a free one.

use rusqlite::Row;
use windlass_core::Spec;

use super::row;
use super::tx::Tx;
use crate::error::Result;
use crate::request::{Look, Reconciled};

impl Tx<'_, '_> {
    /// Gives free slots of a task's lane to parked tasks.
    pub(super) fn give_slots(&mut self, spec: &Spec) -> Result<()> {
        if let Some((namespace, lane)) = spec.lane_key() {
            self.fill_lane(namespace, lane)?;
        }
        Ok(())
    }

    /// Gives free slots of a lane to parked tasks, in submit order. The head of the line decides: if it
    /// cannot start, nobody overtakes it. Says how many it gave.
    fn fill_lane(&mut self, namespace: &str, lane: &str) -> Result<u64> {
        let key = [namespace, lane];
        let taken = self.read(|sql| &mut sql.lane_taken, key, |row| row.get::<_, i64>(0))?.unwrap_or(0);
        let (mut taken, mut given) = (usize::try_from(taken).unwrap_or(usize::MAX), 0);
        loop {
            let decode = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row::lane(row, 1)?));
            let head = self.read(|sql| &mut sql.lane_head, key, decode)?;
            match head {
                Some((seq, Some(lane))) if lane.admits(taken) => {
                    self.write(|sql| &mut sql.give_slot, [seq])?;
                    self.ledger.rings.claimable += 1;
                    taken += 1;
                    given += 1;
                }
                _ => return Ok(given),
            }
        }
    }

    /// Looks at lanes in which tasks wait, in the order of namespace and key, and gives the slots that are
    /// free. A lane is written `namespace key`: a namespace has no space.
    pub(super) fn reconcile_lanes(&mut self, after: Option<&str>, limit: usize) -> Result<Reconciled> {
        let after = after.unwrap_or_default();
        let (namespace, lane) = after.split_once(' ').unwrap_or((after, ""));
        let mut place = (namespace.to_owned(), lane.to_owned());
        let (mut looked_at, mut repaired) = (0, 0);
        while looked_at < limit {
            let decode = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
            let values = [&*place.0, &*place.1];
            let Some(next) = self.read(|sql| &mut sql.next_parked_lane, values, decode)? else {
                return Ok(Reconciled { repaired, next: Some(Look::next_lane(None)) });
            };
            place = next;
            repaired += self.fill_lane(&place.0, &place.1)?;
            looked_at += 1;
        }
        let last = (looked_at > 0).then(|| format!("{} {}", place.0, place.1));
        Ok(Reconciled { repaired, next: Some(Look::next_lane(last.as_deref())) })
    }
}
