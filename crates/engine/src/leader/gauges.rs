//! Chore: tell how many tasks and workers there are. The leader does it for all.

use std::collections::BTreeMap;
use std::time::Duration;

use windlass_core::{Name, State};
use windlass_store::{Count, Error};

use super::Reign;
use crate::kinds::label;
use crate::observe::count;

/// How often.
pub(super) const EVERY: Duration = Duration::from_secs(10);

impl Reign<'_> {
    pub(super) async fn gauge(&mut self) -> Result<(), Error> {
        let store = self.shared.store();
        // A kind that is gone is told once more, as none.
        let gone = std::mem::take(&mut self.gauged).into_iter().map(|kind| (kind, (0, 0)));
        let mut kinds: BTreeMap<Name, (u64, u64)> = gone.collect();
        for Count { kind, state, tasks, .. } in store.counts().await? {
            let kind = label(&kind);
            self.gauged.insert(kind.clone());
            let (pending, running) = kinds.entry(kind).or_default();
            match state {
                State::Pending => *pending += tasks,
                State::Claimed | State::Running => *running += tasks,
                _ => {}
            }
        }
        for (kind, (pending, running)) in kinds {
            let number = |tasks: u64| count(usize::try_from(tasks).unwrap_or(usize::MAX));
            metrics::gauge!("windlass_tasks_pending", "kind" => kind.to_string()).set(number(pending));
            metrics::gauge!("windlass_tasks_running", "kind" => kind.to_string()).set(number(running));
        }
        let now = store.now().await?;
        let alive = store.workers().await?.iter().filter(|worker| worker.is_alive(now)).count();
        metrics::gauge!("windlass_workers").set(count(alive));
        Ok(())
    }
}
