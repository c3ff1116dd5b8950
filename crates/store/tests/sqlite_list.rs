//! Listings of a store that holds more than one page looks at.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod support;

use std::time::Duration;

use support::{file, open, place, runtime, task};
use windlass_core::{By, Command, Name, NewTask, Start, State, TaskId, limits};
use windlass_store::{Filter, Page, Reads, SqliteStore, Store, Writes};

/// Every page, followed to the end.
async fn enumerate(
    store: &SqliteStore,
    filter: &Filter,
    limit: usize,
    oldest_first: bool,
) -> (Vec<TaskId>, usize) {
    let (mut found, mut pages, mut after) = (Vec::new(), 0, None);
    loop {
        let listing = store.tasks(filter.clone(), Page { limit, after, oldest_first }).await.unwrap();
        found.extend(listing.tasks.iter().map(|task| task.id));
        pages += 1;
        after = listing.next;
        if after.is_none() {
            return (found, pages);
        }
    }
}

async fn submit(
    store: &SqliteStore,
    numbers: std::ops::Range<u64>,
    change: impl Fn(&mut NewTask),
) -> Vec<TaskId> {
    let tasks: Vec<NewTask> = numbers
        .map(|n| {
            let mut task = task(n);
            change(&mut task);
            task
        })
        .collect();
    for batch in tasks.chunks(limits::BATCH) {
        store.submit(batch.to_vec()).await.unwrap();
    }
    tasks.iter().map(|task| task.id).collect()
}

async fn cancel(store: &SqliteStore, ids: &[TaskId]) {
    for batch in ids.chunks(limits::BATCH) {
        let cancel = |id: &TaskId| Command::Cancel { task: *id, by: By::default() };
        for receipt in store.apply(batch.iter().map(cancel).collect()).await.unwrap() {
            receipt.unwrap();
        }
    }
}

/// A page that has looked at enough says where to go on; following it finds everything that is wanted, once,
/// in order, also when it is merged from several indexes of which only one was too long.
#[test]
fn what_is_behind_many_others_is_found_by_going_on() {
    let directory = place();
    let store = open(&file(&directory));
    let many = u64::try_from(limits::PAGE_SCAN).unwrap() + 500;
    runtime().block_on(async {
        let rare = Name::kind("test:rare").unwrap();
        let later = |task: &mut NewTask| task.start = Start::After(Duration::from_secs(3600));
        let wanted = |task: &mut NewTask| {
            task.kind = rare.clone();
            task.start = Start::After(Duration::from_secs(3600));
        };
        let first = submit(&store, 0..4, wanted).await;
        submit(&store, 10..10 + many, later).await;
        let last = submit(&store, 50_000..50_004, wanted).await;
        // Of the wanted ones, some of the oldest and some of the newest are in another index.
        cancel(&store, &[first[1], first[3], last[0], last[2]]).await;

        let filter = Filter {
            states: vec![State::Scheduled, State::Cancelled],
            kind: Some(rare.clone()),
            ..Filter::default()
        };
        let expected: Vec<TaskId> = first.iter().chain(&last).copied().collect();
        for limit in [1, 3, 100] {
            let (found, pages) = enumerate(&store, &filter, limit, true).await;
            assert_eq!(found, expected, "oldest first, {limit} a page");
            assert!(pages > 1, "a page looks at a bounded number of rows");
            let (mut found, _) = enumerate(&store, &filter, limit, false).await;
            found.reverse();
            assert_eq!(found, expected, "newest first, {limit} a page");
        }
    });
}

/// A few pending tasks among many finished ones are found at once, parked ones too.
#[test]
fn few_pending_tasks_are_found_at_once() {
    let directory = place();
    let store = open(&file(&directory));
    let many = u64::try_from(limits::PAGE_SCAN).unwrap() + 500;
    runtime().block_on(async {
        let lane = windlass_core::Lane::new("lane", 1).unwrap();
        let pending = submit(&store, 0..3, |task| task.lane = Some(lane.clone())).await;
        let finished = submit(&store, 10..10 + many, |_| {}).await;
        cancel(&store, &finished).await;
        let filter = Filter { states: vec![State::Pending], ..Filter::default() };
        assert_eq!(enumerate(&store, &filter, 10, true).await, (pending.clone(), 1));
        let active = Filter { states: vec![State::Pending, State::Running], ..Filter::default() };
        let newest: Vec<TaskId> = pending.iter().rev().copied().collect();
        assert_eq!(enumerate(&store, &active, 10, false).await, (newest, 1));
    });
}
