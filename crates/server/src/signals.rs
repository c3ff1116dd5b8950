//! Being asked to end: Ctrl-C, SIGTERM, or the terminal closed.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Heard from the moment it is made; none is missed in between.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// Not heard by what was started with `nohup`.
    hangup: Option<Signal>,
}

impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let hears_hangup = ignored(&status).is_some_and(|ignored| ignored & 1 == 0);
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: if hears_hangup { Some(signal(SignalKind::hangup())?) } else { None },
        })
    }

    /// The next one.
    pub(crate) async fn next(&mut self) {
        let Self { interrupt, terminate, hangup } = self;
        let hangup = async {
            match hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup => {}
        }
    }
}

/// The signals that a process was told to ignore when it was started, one bit each from SIGHUP on, as Linux
/// tells them.
fn ignored(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ignored_is_known() {
        assert_eq!(ignored("Name:\tx\nSigIgn:\t0000000000001001\n"), Some(0x1001));
        assert_eq!(ignored(""), None);
    }
}
