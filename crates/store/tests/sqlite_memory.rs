//! Memory does not grow with the backlog: what waits is in the file, not in the process.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, missing_docs)]

mod support;

use support::{again, file, open, place, role, runtime, task};
use windlass_core::{Json, Name, NewTask};
use windlass_store::conformance::{claim_of, completed, finish};
use windlass_store::{SqliteStore, Store, Turn, Writes};

/// The most that ten times the backlog may cost, in kilobytes: 45 bytes for each task more. The page cache is
/// bounded, and full before the first look ([`warm_up`]).
const GROWTH: u64 = 8 << 10;

/// Kilobytes of memory that this process occupies.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

async fn submit(store: &SqliteStore, numbers: std::ops::Range<u64>) {
    for first in numbers.step_by(1000) {
        store.submit((first..first + 1000).map(task).collect()).await.unwrap();
    }
}

/// Fills the writer's page cache, which is bounded at 32 MiB, with one transaction that is larger. Its tasks
/// are of a kind that nobody claims: a worker pays for the payloads in its hands.
async fn warm_up(store: &SqliteStore) {
    let payload = Json::payload(&format!("\"{}\"", "x".repeat(1_000_000))).unwrap();
    let kind = Name::kind("test:large").unwrap();
    let large =
        (1_000_000..1_000_040).map(|n| NewTask { kind: kind.clone(), payload: payload.clone(), ..task(n) });
    store.submit(large.collect()).await.unwrap();
}

/// A backlog of 200,000 tasks costs no more memory than one of 20,000; nor does working on it.
#[test]
fn memory_does_not_grow_with_the_backlog() {
    if let Some((_, place)) = role() {
        return runtime().block_on(async {
            let store = open(&file(&place));
            warm_up(&store).await;
            submit(&store, 0..20_000).await;
            let small = resident();
            submit(&store, 20_000..200_000).await;
            let large = resident();
            let worker = support::worker(&store, "worker").await;
            let mut claimed = store.claim(claim_of(&worker, 100)).await.unwrap();
            for _ in 0..20 {
                let commands = claimed.iter().map(|claimed| finish(claimed, completed("1"))).collect();
                let turn = Turn { commands, claim: Some(claim_of(&worker, 100)), term: None };
                claimed = store.turn(turn).await.unwrap().claimed.unwrap();
                assert_eq!(claimed.len(), 100);
            }
            let worked = resident();
            println!("20,000 tasks: {small} kB; 200,000: {large} kB; at work: {worked} kB");
            assert!(large < small + GROWTH, "the backlog grew the process from {small} to {large} kB");
            assert!(worked < small + GROWTH, "work grew the process from {small} to {worked} kB");
        });
    }
    let directory = place();
    let child = again("memory_does_not_grow_with_the_backlog", "fill", directory.path()).status().unwrap();
    assert!(child.success());
}
