//! The fence: until when a worker may start what it has claimed.
//!
//! All leases of a worker live as long as its heartbeat. A process that was stopped, or a machine that was
//! suspended, may go on when others have taken its tasks, and does not notice by itself. So nothing is
//! started later than the last confirmed heartbeat plus the fence, and nothing that was claimed before a
//! longer silence, because a heartbeat after that does not bring lost leases back.
//!
//! What remains: a process that is stopped after the check and before the first instruction of the handler.
//! Nobody can close that gap here; [`Context::lease`](crate::Context::lease) is the fencing token for what a
//! handler changes elsewhere.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The fence of one worker. Moments are times since an arbitrary one.
#[derive(Debug)]
pub(crate) struct Fence {
    after: Duration,
    clock: Clock,
    beats: Mutex<Beats>,
}

#[derive(Clone, Copy, Debug)]
struct Beats {
    /// When the last heartbeat that was confirmed was sent.
    confirmed: Duration,
    /// When the last silence that was longer than the fence ended.
    unbroken_since: Duration,
}

#[derive(Debug)]
enum Clock {
    /// A clock that also runs while the machine is suspended.
    Machine,
    /// That of a simulation.
    Runtime(Instant),
}

impl Clock {
    fn now(&self) -> Duration {
        match self {
            Self::Machine => since_boot(),
            Self::Runtime(start) => start.elapsed(),
        }
    }
}

#[cfg(target_os = "linux")]
fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(time).unwrap_or_default()
}

/// Where there is no such clock, the usual one.
#[cfg(not(target_os = "linux"))]
fn since_boot() -> Duration {
    static START: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    START.elapsed()
}

impl Fence {
    /// Closes `after` the last confirmed heartbeat. The registration counts as one.
    pub(crate) fn new(after: Duration, is_simulated: bool) -> Self {
        let clock = if is_simulated { Clock::Runtime(Instant::now()) } else { Clock::Machine };
        let now = clock.now();
        Self { after, clock, beats: Mutex::new(Beats { confirmed: now, unbroken_since: now }) }
    }

    fn beats(&self) -> MutexGuard<'_, Beats> {
        self.beats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Duration {
        self.clock.now()
    }

    /// A heartbeat that was sent then has been confirmed, and what it told was passed on.
    pub(crate) fn confirm(&self, sent: Duration) {
        let mut beats = self.beats();
        if sent > beats.confirmed + self.after {
            beats.unbroken_since = sent;
        }
        beats.confirmed = beats.confirmed.max(sent);
    }

    /// Whether the last confirmed heartbeat is recent enough.
    pub(crate) fn is_open(&self) -> bool {
        let confirmed = self.beats().confirmed;
        self.now() < confirmed + self.after
    }

    /// Whether something may be started whose claim was asked for at this moment.
    pub(crate) fn admits(&self, asked: Duration) -> bool {
        let Beats { confirmed, unbroken_since } = *self.beats();
        asked >= unbroken_since && self.now() < confirmed + self.after
    }
}

/// One claim and the fence that it is held behind.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) fence: Arc<Fence>,
    /// When the claim was asked for.
    pub(crate) asked: Duration,
}

impl Hold {
    pub(crate) fn is_sure(&self) -> bool {
        self.fence.admits(self.asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_heartbeat_opens_the_fence_and_brings_no_lost_lease_back() {
        let fence = Fence::new(SECOND * 24, true);
        let asked = fence.now();
        assert!(fence.is_open() && fence.admits(asked));
        tokio::time::advance(SECOND * 23).await;
        fence.confirm(fence.now());
        tokio::time::advance(SECOND * 23).await;
        assert!(fence.admits(asked), "no silence was too long");
        tokio::time::advance(SECOND).await;
        assert!(!fence.is_open() && !fence.admits(asked));
        tokio::time::advance(SECOND).await;
        fence.confirm(fence.now());
        assert!(fence.is_open() && fence.admits(fence.now()));
        assert!(!fence.admits(asked), "it was claimed before the silence");
    }

    #[test]
    fn the_clock_of_the_machine_moves() {
        let fence = Fence::new(SECOND * 24, false);
        let before = fence.now();
        while fence.now() == before {
            std::thread::yield_now();
        }
        assert!(fence.now() > before && fence.is_open());
    }
}
