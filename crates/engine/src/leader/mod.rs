//! The leader: one worker among all, who does what the passing of time asks for.
//!
//! Every worker stands for leader; the store lets one win, for a term. The chores are one file each. Whatever
//! a leader writes names its term, so that one who was followed while it slept changes nothing.

mod clock;
mod due;
mod gauges;
mod prune;
mod reconcile;
mod schedules;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use windlass_core::{Name, Rejected, Term, Timestamp};
use windlass_store::{Error, Rings};

use crate::worker::outbox::Backoff;
use crate::worker::setup::Shared;

/// The least time between two looks at what is due, however often the store rings.
const REST: Duration = Duration::from_millis(5);

/// Stands for leader, and leads, until `stop`.
pub(crate) async fn stand(shared: Arc<Shared>, stop: CancellationToken) {
    let mut backoff = Backoff::default();
    loop {
        let again = match shared.store().campaign(shared.setup.id.clone(), shared.setup.term()).await {
            Ok(Some(leadership)) => {
                let begun = Instant::now();
                info!(worker = %shared.setup.id, term = leadership.term, "leads");
                metrics::gauge!("windlass_leader").set(1.0);
                let mut reign = Reign::new(&shared, leadership.term);
                let ended = reign.last(&stop).await;
                let term = reign.term;
                metrics::gauge!("windlass_leader").set(0.0);
                match ended {
                    Ok(()) => {
                        if let Err(error) = shared.store().resign(shared.setup.id.clone(), term).await {
                            debug!(%error, "not resigned; the term will run out");
                        }
                        return;
                    }
                    Err(Error::Closed) => return,
                    Err(Error::Rejected(Rejected::NotLeader { .. })) => {
                        info!(worker = %shared.setup.id, term, "leads no more");
                        Instant::now() + shared.setup.term() / 6
                    }
                    Err(error) => {
                        warn!(%error, worker = %shared.setup.id, "cannot lead");
                        // To win is not enough: the store answered for as long as the longest wait.
                        if begun.elapsed() > Backoff::LAST {
                            backoff.succeeded();
                        }
                        backoff.failed()
                    }
                }
            }
            Ok(None) => Instant::now() + shared.setup.term() / 6,
            Err(Error::Closed) => return,
            Err(error) => {
                debug!(%error, "cannot stand for leader");
                backoff.failed()
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = sleep_until(again) => {}
        }
    }
}

/// Does once what is due, as the leader.
pub(crate) async fn once(shared: &Shared) -> Result<(), Error> {
    if let Some(leadership) = shared.store().campaign(shared.setup.id.clone(), shared.setup.term()).await? {
        Reign::new(shared, leadership.term).do_what_is_due().await?;
    }
    Ok(())
}

/// Comes when something new waits for a moment.
async fn rang(rings: &mut watch::Receiver<Rings>, heard: u64) {
    if rings.wait_for(|rings| rings.timed != heard).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// One term, as long as it lasts.
struct Reign<'s> {
    shared: &'s Shared,
    term: Term,
    /// When each chore is next to be done.
    renew_at: Instant,
    prune_at: Instant,
    reconcile_at: Instant,
    gauges_at: Instant,
    /// What the store's clock showed at the last look.
    clock: Option<Timestamp>,
    /// Due rows that were refused, so that one look asks for as many more.
    stuck: usize,
    /// Where the reconcile chore goes on.
    reconciled_to: Option<String>,
    /// Kinds whose number of tasks was told.
    gauged: BTreeSet<Name>,
}

impl<'s> Reign<'s> {
    fn new(shared: &'s Shared, term: Term) -> Self {
        let now = Instant::now();
        Self {
            shared,
            term,
            renew_at: now + shared.setup.term() / 2,
            prune_at: now,
            reconcile_at: now + reconcile::EVERY,
            gauges_at: now,
            clock: None,
            stuck: 0,
            reconciled_to: None,
            gauged: BTreeSet::new(),
        }
    }

    /// Does the chores until `stop`, or until it does not lead any more.
    async fn last(&mut self, stop: &CancellationToken) -> Result<(), Error> {
        let mut rings = self.shared.store().watch();
        loop {
            let heard = rings.borrow_and_update().timed;
            let looked = Instant::now();
            let next_due = self.do_what_is_due().await?;
            if self.gauges_at <= looked {
                self.gauge().await?;
                self.gauges_at = looked + gauges::EVERY;
            }
            if self.prune_at <= looked {
                let more = self.prune().await?;
                self.prune_at = if more { looked } else { looked + prune::EVERY };
            }
            if self.reconcile_at <= looked {
                self.reconcile().await?;
                self.reconcile_at = looked + reconcile::EVERY;
            }
            let moments = [self.renew_at, self.prune_at, self.reconcile_at, self.gauges_at];
            let wake = moments.into_iter().chain(next_due).min().unwrap_or(self.renew_at);
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                () = sleep_until(wake) => {}
                () = rang(&mut rings, heard) => sleep_until(looked + REST).await,
            }
            if self.renew_at <= Instant::now() {
                self.renew().await?;
            }
        }
    }

    async fn renew(&mut self) -> Result<(), Error> {
        let renewed =
            self.shared.store().campaign(self.shared.setup.id.clone(), self.shared.setup.term()).await?;
        self.renew_at = Instant::now() + self.shared.setup.term() / 2;
        match renewed {
            Some(leadership) if leadership.term == self.term => Ok(()),
            Some(leadership) => {
                // The last term ran out before it was renewed: this is a new one.
                self.term = leadership.term;
                Ok(())
            }
            None => Err(Rejected::NotLeader { term: self.term }.into()),
        }
    }
}
