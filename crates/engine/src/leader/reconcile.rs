//! Chore: look for what waits for something that has already happened. It finds nothing; what it finds is
//! counted and put right.

use std::time::Duration;

use tracing::error;
use windlass_store::Error;

use super::Reign;

/// How often.
pub(super) const EVERY: Duration = Duration::from_secs(60);

/// Lanes of one look.
const PAGE: usize = 1_000;

impl Reign<'_> {
    pub(super) async fn reconcile(&mut self) -> Result<(), Error> {
        let after = self.reconciled_to.take();
        let found = self.shared.store().reconcile(after, PAGE).await?;
        self.reconciled_to = found.next;
        if found.repaired > 0 {
            error!(
                found.repaired,
                "something waited for what had already happened; was the store written to by hand?"
            );
            metrics::counter!("windlass_reconciled_total").increment(found.repaired);
        }
        Ok(())
    }
}
