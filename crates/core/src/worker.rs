//! Workers and their heartbeats, and the one leader among them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::{Term, WorkerId};
use crate::limits;
use crate::name::{Name, stored_text};
use crate::rejected::{Invalid, Rejected};
use crate::time::{Timestamp, whole_micros};
use crate::worker_secret::SecretDigest;

/// How long a worker may be silent before its leases expire, unless it says otherwise.
pub const DEAD_AFTER: Duration = Duration::from_secs(30);

/// A request to register a worker.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NewWorker {
    /// Fresh at every start.
    pub id: WorkerId,
    /// Where it runs; a label.
    pub host: String,
    /// What it is; a label.
    pub version: String,
    /// How many handlers it runs at once.
    pub pool_size: u32,
    /// Whose tasks it takes.
    pub namespace: Name,
    /// Which queues it takes from.
    pub queues: Vec<Name>,
    /// Which kinds it has handlers for.
    pub kinds: Vec<Name>,
    /// How long it may be silent, to the microsecond.
    pub dead_after: Duration,
    /// The digest of its secret, if it works over HTTP. A server sets it from what the caller sent. Default:
    /// none, for a worker that opens the store directly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretDigest>,
}

impl NewWorker {
    /// A worker of the queue `default` with one handler at a time.
    #[must_use]
    pub fn new(id: WorkerId) -> Self {
        Self {
            id,
            host: String::new(),
            version: String::new(),
            pool_size: 1,
            namespace: Name::default(),
            queues: vec![Name::default()],
            kinds: Vec::new(),
            dead_after: DEAD_AFTER,
            secret: None,
        }
    }

    /// Whether it may replace `existing`, a worker of the same id. A worker with a secret may only if the
    /// secret is the same; so a lost answer can be asked for again, and nobody else's worker can be taken
    /// over. One without a secret may: it has the store itself.
    pub fn check_replaces(&self, existing: &Worker) -> Result<(), Rejected> {
        if self.secret.is_none() || self.secret == existing.secret {
            return Ok(());
        }
        Err(Rejected::WrongWorkerSecret { worker: self.id.clone() })
    }

    /// Whether the numbers are within bounds.
    pub fn check(&self) -> Result<(), Invalid> {
        check_subscriptions(&self.queues, &self.kinds)?;
        if self.dead_after < Duration::from_millis(1) || self.dead_after > limits::TIMEOUT {
            return Err(Invalid::number("dead_after", self.dead_after, "1 ms to 365 days"));
        }
        Ok(())
    }

    /// The worker as it begins.
    #[must_use]
    pub fn admit(self, now: Timestamp) -> Worker {
        Worker {
            id: self.id,
            host: stored_text(&self.host),
            version: stored_text(&self.version),
            pool_size: self.pool_size,
            namespace: self.namespace,
            queues: self.queues,
            kinds: self.kinds,
            dead_after: whole_micros(self.dead_after),
            started_at: now,
            heartbeat_at: now,
            secret: self.secret,
        }
    }
}

/// Whether a claim or a worker asks for a bearable number of queues and kinds.
pub fn check_subscriptions(queues: &[Name], kinds: &[Name]) -> Result<(), Invalid> {
    for (field, names) in [("number of queues", queues), ("number of kinds", kinds)] {
        if names.len() > limits::SUBSCRIPTIONS {
            return Err(Invalid::number(field, names.len(), "at most 256"));
        }
    }
    Ok(())
}

/// A registered worker.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Worker {
    /// Its identity.
    pub id: WorkerId,
    /// Where it runs.
    pub host: String,
    /// What it is.
    pub version: String,
    /// How many handlers it runs at once.
    pub pool_size: u32,
    /// Whose tasks it takes.
    pub namespace: Name,
    /// Which queues it takes from.
    pub queues: Vec<Name>,
    /// Which kinds it has handlers for.
    pub kinds: Vec<Name>,
    /// How long it may be silent.
    pub dead_after: Duration,
    /// When it registered.
    pub started_at: Timestamp,
    /// When it was last heard of.
    pub heartbeat_at: Timestamp,
    /// The digest of its secret, if it has one. It stays where the store is: it is in no answer of a server.
    #[serde(skip)]
    pub secret: Option<SecretDigest>,
}

impl Worker {
    /// Until when all its leases are good, if it is not heard of again.
    #[must_use]
    pub fn alive_until(&self) -> Timestamp {
        self.heartbeat_at.plus(self.dead_after)
    }

    /// Whether it has been heard of recently enough.
    #[must_use]
    pub fn is_alive(&self, now: Timestamp) -> bool {
        self.alive_until() > now
    }

    /// Whether it takes tasks of this namespace, queue and kind.
    #[must_use]
    pub fn takes(&self, namespace: &Name, queue: &Name, kind: &Name) -> bool {
        self.namespace == *namespace && self.queues.contains(queue) && self.kinds.contains(kind)
    }
}

/// The right to do the chores: one row, changed only by comparing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Leadership {
    /// Who leads.
    pub holder: WorkerId,
    /// The number of this reign; never used again.
    pub term: Term,
    /// When it ends unless it is renewed.
    pub until: Timestamp,
}

impl Leadership {
    /// Whether `term` is in force.
    #[must_use]
    pub fn is_current(&self, term: Term, now: Timestamp) -> bool {
        self.term == term && self.until > now
    }
}

/// The lease row after `candidate` asked for it, or `None` if another leads. The holder of a live lease
/// extends its term, and never shortens it; an expired one, even one's own, is followed by a new term.
#[must_use]
pub fn campaign(
    current: Option<&Leadership>,
    candidate: &WorkerId,
    lease: Duration,
    now: Timestamp,
) -> Option<Leadership> {
    let (term, until) = match current {
        None => (1, now.plus(lease)),
        Some(lead) if lead.until <= now => (lead.term + 1, now.plus(lease)),
        Some(lead) if lead.holder == *candidate => (lead.term, now.plus(lease).max(lead.until)),
        Some(_) => return None,
    };
    Some(Leadership { holder: candidate.clone(), term, until })
}

/// The lease row after `candidate` gave its term up, or `None` if it is not its to give. The end is put where
/// no clock that goes back can bring the term to life again.
#[must_use]
pub fn resign(current: Option<&Leadership>, candidate: &WorkerId, term: Term) -> Option<Leadership> {
    let lead = current.filter(|lead| lead.holder == *candidate && lead.term == term)?;
    Some(Leadership { until: Timestamp::MIN, ..lead.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_leader_per_term() {
        let (a, b) = (WorkerId::new("a").unwrap(), WorkerId::new("b").unwrap());
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        let lease = Duration::from_secs(30);
        let first = campaign(None, &a, lease, at(0)).unwrap();
        assert_eq!((first.term, first.until), (1, at(30)));
        assert_eq!(campaign(Some(&first), &b, lease, at(29)), None);
        let renewed = campaign(Some(&first), &a, lease, at(15)).unwrap();
        assert_eq!((renewed.term, renewed.until), (1, at(45)));
        let next = campaign(Some(&renewed), &b, lease, at(45)).unwrap();
        assert_eq!(next.term, 2);
        assert!(!renewed.is_current(1, at(45)) && next.is_current(2, at(46)));
        let again = campaign(Some(&next), &b, lease, at(75)).unwrap();
        assert_eq!(again.term, 3, "an expired leader begins a new term");
        assert_eq!(campaign(Some(&again), &b, lease, at(10)).unwrap().until, again.until, "never shortened");
        assert_eq!(resign(Some(&again), &a, 3), None);
        assert_eq!(resign(Some(&again), &b, 2), None);
        let free = resign(Some(&again), &b, 3).unwrap();
        assert_eq!(campaign(Some(&free), &a, lease, at(0)).unwrap().term, 4);
    }
}
