//! The heartbeat: one for all leases of a worker, from a thread of its own, so that no handler can starve it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use windlass_core::{Rejected, State};
use windlass_store::Error;

use super::asking::holdings;
use super::setup::Shared;
use crate::stop::StopReason;

/// How soon a heartbeat that failed is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// The least time between two heartbeats, however often one is asked for.
const REST: Duration = Duration::from_millis(100);

/// Runs until `stop`. It ends by itself only if the store is closed.
pub(super) async fn beat(shared: Arc<Shared>, stop: CancellationToken) {
    let mut confirmed = Instant::now();
    let mut next = confirmed + shared.setup.heartbeat;
    // Each is logged once, until it is over.
    let (mut is_failing, mut is_fenced) = (false, false);
    loop {
        let rest = Instant::now() + REST;
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = sleep_until(next) => {}
            () = shared.look_wanted.notified() => {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    () = sleep_until(rest.min(next)) => {}
                }
                // Only a look: a heartbeat is a write, which in other processes rings this very bell.
                if Instant::now() < next {
                    if let Ok(Err(error)) = timeout_at(next, look(&shared)).await {
                        debug!(%error, "could not look whether leases are lost; the heartbeat will tell");
                    }
                    continue;
                }
            }
            () = shared.pulse_wanted.notified() => {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    () = sleep_until(rest) => {}
                }
            }
        }
        let (sent, sent_at) = (Instant::now(), shared.fence.now());
        let fence_at = confirmed + shared.setup.fence_after();
        // The fence also counts the time in which the machine was suspended.
        let too_late = sent >= fence_at || !shared.fence.is_open();
        if too_late {
            if !std::mem::replace(&mut is_fenced, true) {
                warn!(worker = %shared.setup.id, "the store cannot be told that this worker lives; its handlers stop");
            }
            shared.held.stop_all(StopReason::Fenced);
        }
        let until = if too_late { sent + AGAIN } else { fence_at };
        let answer = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            answer = timeout_at(until.min(sent + shared.setup.dead_after / 3), once(&shared)) => answer,
        };
        match answer {
            Ok(Ok(())) => {
                confirmed = sent;
                next = sent + shared.setup.heartbeat;
                let was_open = shared.fence.is_open();
                shared.fence.confirm(sent_at);
                if !was_open {
                    shared.claim_wanted.notify_one();
                }
                if is_failing || is_fenced {
                    info!(worker = %shared.setup.id, "heartbeats are confirmed again");
                }
                (is_failing, is_fenced) = (false, false);
                continue;
            }
            Ok(Err(Error::Closed)) => {
                // The loop finds out by asking.
                shared.is_closed.store(true, Ordering::Relaxed);
                shared.claim_wanted.notify_one();
                return;
            }
            answer => {
                let error = match answer {
                    Ok(Err(error)) => error.to_string(),
                    _ => "not answered".into(),
                };
                if std::mem::replace(&mut is_failing, true) {
                    debug!(error, worker = %shared.setup.id, "heartbeat failed again");
                } else {
                    warn!(error, worker = %shared.setup.id, "heartbeat failed");
                }
            }
        }
        // Once more before long, and in any case when the handlers are to be stopped.
        let now = Instant::now();
        next = now + AGAIN.min(shared.setup.heartbeat);
        if !too_late {
            next = next.min(fence_at.max(now));
        }
    }
}

/// Looks whether the store still counts what this worker works on as its own, and stops the handlers of what
/// it does not.
async fn look(shared: &Shared) -> Result<(), Error> {
    let held = shared.held.list();
    let still: BTreeSet<_> = holdings(shared).await?.into_iter().collect();
    for (id, lease) in held.into_iter().filter(|claim| !still.contains(claim)) {
        let status = shared.store().task(id).await?.map(|record| record.task.status);
        let cancelled = status.is_some_and(|now| now.state == State::Cancelled && now.lease == lease);
        let reason = if cancelled { StopReason::Cancelled } else { StopReason::LeaseLost };
        shared.held.stop(id, lease, reason);
    }
    Ok(())
}

/// One heartbeat, and what it tells.
async fn once(shared: &Shared) -> Result<(), Error> {
    let held: BTreeMap<_, _> = shared.held.list().into_iter().collect();
    let leases: Vec<_> = held.iter().map(|(id, lease)| (*id, *lease)).collect();
    let pulse = match shared.store().heartbeat(shared.setup.id.clone(), leases.clone()).await {
        Err(Error::Rejected(Rejected::InvalidWorker { .. })) => {
            // It was forgotten. What nobody has taken from it since is still its own, and would be nobody's
            // if it let go.
            shared.store().register(shared.setup.registration()).await?;
            shared.claim_wanted.notify_one();
            shared.store().heartbeat(shared.setup.id.clone(), leases).await?
        }
        answer => answer?,
    };
    let lost = pulse.lost.iter().map(|id| (id, StopReason::LeaseLost));
    let cancelled = pulse.cancelled.iter().map(|id| (id, StopReason::Cancelled));
    for (id, reason) in lost.chain(cancelled) {
        if let Some(lease) = held.get(id) {
            debug!(task = %id, lease, ?reason, "told to stop");
            shared.held.stop(*id, *lease, reason);
        }
    }
    Ok(())
}
