//! Chore: delete what retention does not keep, and workers that died long ago.

use std::time::Duration;

use tracing::info;
use windlass_store::Error;

use super::Reign;

/// How often.
pub(super) const EVERY: Duration = Duration::from_secs(60);

/// Tasks of one go: what is due gets its turn in between.
const PAGE: usize = 500;

impl Reign<'_> {
    /// Deletes a page; says whether there may be more.
    pub(super) async fn prune(&self) -> Result<bool, Error> {
        let pruned = self.shared.store().prune(self.shared.setup.retention.clone(), PAGE).await?;
        if pruned > 0 {
            info!(pruned, "old tasks deleted");
        }
        Ok(pruned == PAGE)
    }
}
