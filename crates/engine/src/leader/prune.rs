//! Chore: delete what retention does not keep, and workers that died long ago.

use std::time::Duration;

use tracing::info;
use windlass_core::Retention;
use windlass_store::Error;

use super::Reign;

/// How often.
pub(super) const EVERY: Duration = Duration::from_secs(60);

/// Tasks of one go: what is due gets its turn in between.
const PAGE: usize = 500;

/// How long a dead worker is still listed.
const REMEMBERED: Duration = Duration::from_secs(3600);

impl Reign<'_> {
    /// Deletes a page; says whether there may be more.
    pub(super) async fn prune(&self) -> Result<bool, Error> {
        let store = self.shared.store();
        if self.shared.setup.retention != Retention::default() {
            let pruned = store.prune(&self.shared.setup.retention, PAGE).await?;
            if pruned > 0 {
                info!(pruned, "old tasks deleted");
            }
            if pruned == PAGE {
                return Ok(true);
            }
        }
        let now = store.now().await?;
        for worker in store.workers().await? {
            if now.since(worker.alive_until()) > REMEMBERED {
                store.deregister(&worker.id).await?;
            }
        }
        Ok(false)
    }
}
