//! The server that ran here before, if it was killed: it cannot give up its term, so this one does it for it.

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use tracing::{info, warn};
use windlass::{Store, WorkerId};

/// Ends the term of a leader that was a process of this machine and is no more: what waits for a moment need
/// not wait for the end of the term.
///
/// Another machine of the same name may have that process. Then its term is only over early: whatever a
/// leader writes names its term, so that one who was followed changes nothing.
pub(super) async fn follow(store: &dyn Store, own: &WorkerId) {
    let ended = async {
        match store.leader().await? {
            Some(leader) if is_gone(&leader.holder, own) => {
                info!(former = %leader.holder, "the process that led is gone");
                store.resign(leader.holder.clone(), leader.term).await.map(|_| ())
            }
            _ => Ok(()),
        }
    };
    if let Err(error) = ended.await {
        warn!(%error, "the term of the server before this one will run out by itself");
    }
}

/// Whether this is a process of this machine that has ended. One that has this process's number, and is not
/// this one, was before it.
fn is_gone(holder: &WorkerId, own: &WorkerId) -> bool {
    let (Some((host, number)), Some((here, this))) = (parts(holder), parts(own)) else { return false };
    host == here && holder != own && (number == this || !is_alive(number))
}

/// The host and the process of an id, which is written `host-pid-random`.
fn parts(id: &WorkerId) -> Option<(&str, Pid)> {
    let (rest, _) = id.as_str().rsplit_once('-')?;
    let (host, number) = rest.rsplit_once('-')?;
    Some((host, Pid::from_raw(number.parse().ok()?)?))
}

/// It is, unless the system knows nothing of it: one of another user may not be asked.
fn is_alive(process: Pid) -> bool {
    test_kill_process(process) != Err(Errno::SRCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_was_here_and_has_ended_is_gone() {
        let id = |text: &str| WorkerId::new(text).unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let ended = child.id();
        child.wait().unwrap();
        let this = std::process::id();
        let own = id(&format!("my-host-{this}-0a"));
        for gone in [format!("my-host-{ended}-0b"), format!("my-host-{this}-0b")] {
            assert!(is_gone(&id(&gone), &own), "{gone}");
        }
        for there in [
            format!("my-host-{this}-0a"),
            "my-host-1-0b".into(),
            format!("host-{ended}-0b"),
            format!("other-{ended}-0b"),
            "my-host-0b".into(),
            "my-host-x-0b".into(),
            "my-host-0-0b".into(),
            "my-host--1-0b".into(),
            "0b".into(),
        ] {
            assert!(!is_gone(&id(&there), &own), "{there}");
        }
    }
}
