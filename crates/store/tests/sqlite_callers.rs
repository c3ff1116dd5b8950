//! Callers that go away, close the store, or stand beside a bad neighbour.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, missing_docs)]

mod support;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use support::{Bar, PATIENCE, file, open, place, poll_once, runtime, task};
use tokio::time::timeout;
use windlass_core::{Name, NewTask, Rejected, Retention, TaskId, WorkerId};
use windlass_store::conformance::{claim_of, entity, id, invariants};
use windlass_store::sqlite::{Durability, Options};
use windlass_store::{Error, Filter, Page, Store, Submitted, SystemClock, Turn};

type Submitting<'s> = Pin<Box<dyn Future<Output = Result<Vec<Submitted>, Error>> + Send + 's>>;

fn submit(store: &dyn Store, tasks: Vec<NewTask>) -> Submitting<'_> {
    store.submit(tasks)
}

/// Has a request taken by the writer; the answer may be there at once.
fn taken(mut call: Submitting<'_>) -> Submitting<'_> {
    match poll_once(&mut call) {
        Poll::Ready(answer) => Box::pin(async move { answer }),
        Poll::Pending => call,
    }
}

/// A caller that goes away after its request was taken changes nothing about it: it happens fully or not at
/// all, nobody else notices, and its place in the line is given back.
#[test]
fn a_cancelled_caller_leaves_whole_tasks_or_none() {
    runtime().block_on(async {
        let directory = place();
        let store = open(&file(&directory));
        let mut kept = Vec::new();
        // More than may wait in the line at once, so that some are dropped outside it.
        let mut dropped = Vec::new();
        for n in 0..1_500 {
            let mut call = submit(&store, vec![task(2 * n), task(2 * n + 1)]);
            match n % 5 {
                0 => {}
                4 => {
                    kept.push(taken(call));
                    continue;
                }
                _ => drop(poll_once(&mut call)),
            }
            dropped.push(n);
        }
        for call in kept {
            let answer = timeout(PATIENCE, call).await.expect("nobody waits for ever");
            assert_eq!(answer.unwrap().len(), 2);
        }
        let again: Vec<_> = (10_000..11_500).map(|n| taken(submit(&store, vec![task(n)]))).collect();
        for call in again {
            timeout(PATIENCE, call).await.expect("the places of those who left are free").unwrap();
        }
        let mut happened = 0;
        for n in &dropped {
            let both =
                [support::is_whole(&store, id(2 * n)).await, support::is_whole(&store, id(2 * n + 1)).await];
            assert_eq!(both[0], both[1], "a batch is whole or absent");
            assert!(!both[0] || n % 5 != 0, "what was never polled never happened");
            happened += usize::from(both[0]);
        }
        println!("{happened} of {} dropped submits happened", dropped.len());
        assert!(happened > 0, "a request that was taken is carried out");
        invariants::check(&store, &SystemClock).await;
    });
}

/// Closing under load: every acknowledged submit is there after opening again; who came too late is told
/// `Closed`.
#[test]
fn closing_under_load_loses_nothing_acknowledged() {
    runtime().block_on(async {
        let directory = place();
        let store: Arc<dyn Store> = Arc::new(open(&file(&directory)));
        let (told, mut hear) = tokio::sync::mpsc::unbounded_channel();
        let callers: Vec<_> = (0..16_u64)
            .map(|caller| {
                let (store, told) = (store.clone(), told.clone());
                tokio::spawn(async move {
                    for n in 0.. {
                        let new = task(caller << 32 | n);
                        let task = new.id;
                        match store.submit(vec![new]).await {
                            Ok(_) => told.send(task).unwrap(),
                            Err(error) => return (task, error),
                        }
                    }
                    unreachable!("the store is closed first")
                })
            })
            .collect();
        let mut acknowledged = Vec::new();
        while acknowledged.len() < 300 {
            acknowledged.push(hear.recv().await.unwrap());
        }
        store.close().await.unwrap();
        let mut refused: Vec<TaskId> = Vec::new();
        for caller in callers {
            let (task, error) = timeout(PATIENCE, caller).await.expect("every caller is answered").unwrap();
            assert_eq!(error, Error::Closed);
            refused.push(task);
        }
        drop(told);
        while let Some(task) = hear.recv().await {
            acknowledged.push(task);
        }
        every_call_says_closed(&*store).await;
        let store = open(&file(&directory));
        for task in &acknowledged {
            assert!(support::is_whole(&store, *task).await, "I1: {task} was acknowledged and is lost");
        }
        for task in &refused {
            assert!(!support::is_whole(&store, *task).await, "{task} was refused and is there");
        }
        println!("{} acknowledged before the close", acknowledged.len());
        invariants::check(&store, &SystemClock).await;
    });
}

async fn every_call_says_closed(store: &dyn Store) {
    fn closed<T: std::fmt::Debug>(answer: Result<T, Error>) {
        assert_eq!(answer.unwrap_err(), Error::Closed);
    }
    let (name, worker, planner) = (Name::default(), WorkerId::new("w").unwrap(), entity("planner:1"));
    closed(store.submit(vec![task(1)]).await);
    closed(store.submit(Vec::new()).await);
    closed(store.turn(Turn::default()).await);
    closed(store.claim(claim_of(&worker, 1)).await);
    closed(store.register(support::new_worker("w")).await);
    closed(store.heartbeat(worker.clone(), Vec::new()).await);
    closed(store.deregister(worker.clone()).await);
    closed(store.workers().await);
    closed(store.campaign(worker.clone(), Duration::from_secs(1)).await);
    closed(store.resign(worker.clone(), 1).await);
    closed(store.leader().await);
    closed(store.due(1).await);
    closed(store.task(id(1)).await);
    closed(store.find(name.clone(), name.clone(), "k".into()).await);
    closed(store.tasks(Filter::default(), Page::default()).await);
    closed(store.counts().await);
    closed(store.facts(id(1)).await);
    closed(store.pause(name.clone(), name.clone(), true).await);
    closed(store.paused().await);
    closed(store.set_entity(name.clone(), planner.clone(), true).await);
    closed(store.has_entity(name.clone(), planner.clone()).await);
    closed(store.prune(Retention::default(), 1).await);
    store.close().await.expect("closing again is fine");
}

/// I18: 64 callers in one transaction, half of whom ask for an id that is taken: exactly the other half is
/// accepted.
#[test]
fn bad_neighbours_hinder_nobody() {
    runtime().block_on(async {
        let directory = place();
        let (bar, commits) = (Bar::default(), Arc::new(AtomicUsize::new(0)));
        let probe = {
            let (bar, commits) = (bar.clone(), commits.clone());
            move |statement: &'static str, before: bool| {
                commits.fetch_add(usize::from(statement == "commit" && before), Ordering::SeqCst);
                bar.wait(statement, before);
            }
        };
        let options = Options::new(file(&directory)).durability(Durability::Normal);
        let store = options.probe(probe).open().unwrap();
        let gate = bar.close();
        let mut first = submit(&store, vec![task(0)]);
        assert!(poll_once(&mut first).is_pending());
        gate.reached();
        // Even callers want an id of their own. Odd ones want their neighbour's, or that of the first caller
        // of all, and put another task before it.
        let wanted = |n: u64| match n % 4 {
            1 => id(0),
            3 => id(1_000 + n - 1),
            _ => id(1_000 + n),
        };
        let mut calls: Vec<_> = (0..64)
            .map(|n| {
                let twin = NewTask { id: wanted(n), ..task(n) };
                submit(&store, if n % 2 == 0 { vec![twin] } else { vec![task(100 + n), twin] })
            })
            .collect();
        for call in &mut calls {
            assert!(poll_once(call).is_pending());
        }
        gate.open();
        first.await.unwrap();
        let mut accepted = 0;
        for (n, call) in (0..).zip(calls) {
            let answer = timeout(PATIENCE, call).await.expect("everyone is answered");
            let good = n % 2 == 0;
            accepted += usize::from(answer.is_ok());
            match answer {
                Ok(_) => assert!(good, "caller {n} was accepted"),
                Err(error) => {
                    assert!(!good, "caller {n} was refused: {error}");
                    assert_eq!(error.rejected(), Some(&Rejected::IdConflict { task: wanted(n) }));
                    assert!(!support::is_whole(&store, id(100 + n)).await, "a refused batch leaves nothing");
                }
            }
        }
        assert_eq!(accepted, 32, "exactly the good half");
        assert_eq!(commits.load(Ordering::SeqCst), 2, "they were in one transaction");
        invariants::check(&store, &SystemClock).await;
    });
}
