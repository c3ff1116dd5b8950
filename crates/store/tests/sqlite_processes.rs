//! Several processes on one file: nothing is lost or doubled, news travels, and a kill -9 costs nothing
//! acknowledged.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, missing_docs)]

mod support;

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use support::{PATIENCE, again, file, open, place, role, runtime, task};
use tokio::time::timeout;
use windlass_core::{State, TaskId};
use windlass_store::conformance::{claim_of, completed, finish, id, invariants};
use windlass_store::{Claimed, Reads, SqliteStore, Store, SystemClock, Turn, Writes};

/// The words after `key` in each line of a child's output. The first line begins with the name of the test.
fn said<'o>(output: &'o str, key: &str) -> Vec<&'o str> {
    output.lines().filter_map(|line| Some(line.split_once(key)?.1)).collect()
}

async fn completed_tasks(store: &dyn Store) -> u64 {
    let counts = store.counts().await.unwrap();
    counts.iter().filter(|count| count.state == State::Completed).map(|count| count.tasks).sum()
}

/// I1, I3, I4, I6 across processes: four of them submit, claim and finish at once, and none is ever told of a
/// lock.
#[test]
fn four_processes_share_one_file() {
    const EACH: u64 = 150;
    if let Some((number, place)) = role() {
        return runtime().block_on(share(number.parse().unwrap(), EACH, &place));
    }
    let directory = place();
    let children: Vec<Child> = (0..4)
        .map(|n| {
            let mut child = again("four_processes_share_one_file", &n.to_string(), directory.path());
            child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let mut done: Vec<TaskId> = Vec::new();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let words = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{words}{}", String::from_utf8_lossy(&output.stderr));
        let own = said(&words, "done ");
        println!("one process finished {} tasks", own.len());
        done.extend(own.iter().map(|id| id.parse::<TaskId>().unwrap()));
    }
    let distinct: HashSet<TaskId> = done.iter().copied().collect();
    assert_eq!((done.len(), distinct.len()), (600, 600), "each task was finished once, by one process");
    runtime().block_on(async {
        let store = open(&file(&directory));
        assert_eq!(completed_tasks(&store).await, 4 * EACH, "nothing is lost");
        for id in done {
            let record = store.task(id).await.unwrap().expect("what was finished was submitted");
            assert_eq!(record.task.status.lease, 1, "{id} was handed out once");
        }
        invariants::check(&store, &SystemClock).await;
    });
}

/// One process's part: submits its own tasks and works on everyone's until all are done.
async fn share(number: u64, each: u64, place: &Path) {
    let (since, store) = (Instant::now(), open(&file(place)));
    let worker = support::worker(&store, &format!("process-{number}")).await;
    let (mut own, mut held) = (number * each + 1..=(number + 1) * each, Vec::<Claimed>::new());
    let mut news = store.watch();
    loop {
        news.mark_unchanged();
        let batch: Vec<_> = own.by_ref().take(7).map(task).collect();
        let submitted = !batch.is_empty();
        store.submit(batch).await.unwrap();
        let commands = held.iter().map(|claimed| finish(claimed, completed("1"))).collect();
        let turn = Turn { commands, claim: Some(claim_of(&worker, 5)), term: None };
        let turned = store.turn(turn).await.unwrap();
        for receipt in turned.receipts {
            println!("\ndone {}", receipt.unwrap().task);
        }
        held = turned.claimed.unwrap();
        if held.is_empty() && !submitted {
            if completed_tasks(&store).await == 4 * each {
                return;
            }
            assert!(since.elapsed() < PATIENCE, "all is done some time");
            // Others finish what they hold, which rings for nobody here; look again soon.
            let _ = timeout(Duration::from_millis(50), news.changed()).await;
        }
    }
}

/// A commit of one process wakes those who watch in another.
#[test]
fn news_reaches_other_processes() {
    if let Some((_, place)) = role() {
        let store = open(&file(&place));
        return runtime().block_on(async { drop(store.submit(vec![task(1)]).await.unwrap()) });
    }
    let directory = place();
    runtime().block_on(async {
        let store = open(&file(&directory));
        let mut news = store.watch();
        let worker = support::worker(&store, "worker").await;
        assert!(store.claim(claim_of(&worker, 1)).await.unwrap().is_empty());
        news.mark_unchanged();
        let mut child = again("news_reaches_other_processes", "submit", directory.path()).spawn().unwrap();
        let rang = timeout(Duration::from_secs(10), news.changed()).await;
        rang.expect("the watcher is woken within ten seconds").unwrap();
        let claimed = timeout(PATIENCE, async {
            loop {
                let claimed = store.claim(claim_of(&worker, 1)).await.unwrap();
                if !claimed.is_empty() {
                    return claimed;
                }
                // Opening the file was news already; the submit is the next.
                news.changed().await.unwrap();
            }
        });
        assert_eq!(claimed.await.expect("the submit is news too")[0].task.id, id(1));
        assert!(child.wait().unwrap().success());
    });
}

/// I1 and I6 after kill -9: what a process had told the world before it died is there; what it had not told
/// is whole or absent; and whoever else has the file open goes on.
#[test]
fn a_kill_costs_nothing_acknowledged() {
    const NAME: &str = "a_kill_costs_nothing_acknowledged";
    if let Some((number, place)) = role() {
        return runtime().block_on(work_until_killed(number.parse().unwrap(), &place));
    }
    let directory = place();
    let runtime = runtime();
    let (mut submitted, mut finished) = (Vec::new(), Vec::new());
    for round in 0..10_usize {
        // In every other round this process has the file open too, so that the dead one is not the last.
        let survivor = (round % 2 == 1).then(|| open(&file(&directory)));
        let mut child = again(NAME, &round.to_string(), directory.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut told = String::new();
        let mut heard = 0;
        while heard < 40 + 13 * round {
            let line = lines.next().expect("it works until it is killed").unwrap();
            heard += usize::from(line.contains("submitted ") || line.contains("finished "));
            told += &(line + "\n");
        }
        child.kill().unwrap();
        lines.for_each(|line| told += &(line.unwrap() + "\n"));
        assert!(!child.wait().unwrap().success(), "it was killed");
        let parse = |id: &str| id.parse::<TaskId>().unwrap();
        submitted.extend(said(&told, "submitted ").into_iter().map(parse));
        finished.extend(said(&told, "finished ").into_iter().map(parse));
        let store = survivor.unwrap_or_else(|| open(&file(&directory)));
        runtime.block_on(account(&store, &submitted, &finished));
    }
    println!(
        "{} submits and {} finishes were acknowledged before ten kills",
        submitted.len(),
        finished.len()
    );
    assert!(submitted.len() > 200 && finished.len() > 50, "there was something to lose");
}

async fn work_until_killed(round: u64, place: &Path) {
    let store = open(&file(place));
    let worker = support::worker(&store, &format!("victim-{round}")).await;
    for n in 0_u64.. {
        let first = (round << 32) + 4 * n;
        for submitted in store.submit((first..first + 3).map(task).collect()).await.unwrap() {
            println!("\nsubmitted {}", submitted.id);
        }
        for claimed in store.claim(claim_of(&worker, 2)).await.unwrap() {
            store.apply(vec![finish(&claimed, completed("1"))]).await.unwrap().remove(0).unwrap();
            println!("\nfinished {}", claimed.task.id);
        }
    }
}

async fn account(store: &SqliteStore, submitted: &[TaskId], finished: &[TaskId]) {
    for id in submitted {
        assert!(support::is_whole(store, *id).await, "I1: {id} was acknowledged and is lost");
    }
    for id in finished {
        let record = store.task(*id).await.unwrap().unwrap();
        assert_eq!(record.task.status.state, State::Completed, "I6: {id} was finished");
    }
    invariants::check(store, &SystemClock).await;
}
