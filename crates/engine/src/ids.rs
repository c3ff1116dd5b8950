//! Fresh identities.

use std::fs;
use std::process;

use uuid::Uuid;
use windlass_core::{TaskId, WorkerId, WorkflowId};

/// A new id for a task: a UUID of version 7, so that ids made later sort later. No step or item of a workflow
/// can have it: of its last 34 bits, the first three are ones.
#[must_use]
pub fn task_id() -> TaskId {
    let id = Uuid::now_v7().as_u128();
    TaskId::new(Uuid::from_u128(in_order(id) | 0b111 << 31 | id & 0x7fff_ffff))
}

/// A new id for a workflow. Its last 34 bits are 0: they number the tasks of the workflow.
#[must_use]
pub fn workflow_id() -> WorkflowId {
    WorkflowId::new(Uuid::from_u128(in_order(Uuid::now_v7().as_u128())))
}

/// A UUID of version 7 without its last 34 bits. What tells apart two that are made within a millisecond (by
/// convention the 42 bits before the last 32) is moved up, without its first two bits.
fn in_order(id: u128) -> u128 {
    let counter = (id >> 64 & 0xfff) << 30 | (id >> 32 & 0x3fff_ffff);
    let (upper, lower) = (counter >> 28 & 0xfff, counter & 0xfff_ffff);
    let moment_and_version = id >> 76 << 76;
    moment_and_version | upper << 64 | 0b10 << 62 | lower << 34
}

/// A new id for a worker: `host-pid-random`, fresh at every start, so that a worker is never mistaken for the
/// one that ran before it.
#[must_use]
pub fn worker_id() -> WorkerId {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = host.as_deref().map(str::trim).filter(|host| !host.is_empty()).unwrap_or("host");
    WorkerId::stored(format!("{host}-{}-{}", process::id(), random()))
}

/// A new id for a worker on another machine: `host-random`, without the host if it cannot be part of one.
#[must_use]
pub fn worker_id_at(host: &str) -> WorkerId {
    let id = format!("{host}-{}", random());
    WorkerId::new(&*id).unwrap_or_else(|_| WorkerId::stored(format!("worker-{}", random())))
}

fn random() -> String {
    let random = Uuid::now_v7().simple().to_string();
    random[random.len() - 12..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_are_fresh_and_in_order() {
        let ids: Vec<_> = (0..100_000).map(|_| task_id()).collect();
        assert!(ids.is_sorted());
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
        assert!(ids.iter().all(|id| WorkflowId::reserving(*id).is_none()));
        let read: Uuid = ids[0].to_string().parse().unwrap();
        assert_eq!((read.get_version_num(), read.get_variant()), (7, uuid::Variant::RFC4122));
        let ids: Vec<_> = (0..1000).map(|_| workflow_id()).collect();
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
        let read: Uuid = ids[0].to_string().parse().unwrap();
        assert_eq!((read.get_version_num(), read.get_variant()), (7, uuid::Variant::RFC4122));
        let (one, other) = (worker_id(), worker_id());
        assert_ne!(one, other);
        assert!(WorkerId::new(one.as_str()).is_ok());
    }
}
