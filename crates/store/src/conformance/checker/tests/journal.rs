//! The log survives kills, and notices everything else.

use std::fs;
use std::io::Write;

use tempfile::TempDir;
use windlass_core::{Command, NewTask, State};

use super::stage::task;
use crate::conformance::checker::{
    Accepted, Answer, Asked, Damaged, End, Journal, Op, What, check_store, read,
};
use crate::conformance::id;
use crate::{Error, MemoryStore, Store, Turn};

fn cancel(n: u64) -> Op {
    Op::Cancel { task: id(n) }
}

#[test]
fn what_is_written_is_read() {
    let directory = TempDir::new().unwrap();
    let journal = Journal::create(directory.path(), "alpha").unwrap();
    let asked = NewTask { key: Some("o'key \"é\"\n".into()), ..task(id(1)) };
    let submit = journal.invoke(Op::submit(std::slice::from_ref(&asked)));
    submit.ok(Answer::Submitted(vec![Accepted { id: id(1), created: true }]));
    journal.invoke(cancel(1)).failed("no such task");
    journal.invoke(cancel(2)).unknown();
    drop(journal.invoke(cancel(3)));
    journal.handler_ended(id(1), 7);
    let events = read(directory.path()).unwrap();
    assert!(events.iter().all(|event| &*event.who == "alpha"));
    assert!(events.is_sorted_by_key(|event| event.at));
    let whats: Vec<_> = events.into_iter().map(|event| event.what).collect();
    let accepted = Answer::Submitted(vec![Accepted { id: id(1), created: true }]);
    let expected = [
        What::Invoked { number: 1, op: Op::Submit(vec![Asked::from(&asked)]) },
        What::Ended { number: 1, end: End::Ok(accepted) },
        What::Invoked { number: 2, op: cancel(1) },
        What::Ended { number: 2, end: End::Failed("no such task".into()) },
        What::Invoked { number: 3, op: cancel(2) },
        What::Ended { number: 3, end: End::Unknown },
        What::Invoked { number: 4, op: cancel(3) },
        What::HandlerEnded { task: id(1), lease: 7 },
    ];
    assert_eq!(whats, expected);
}

#[test]
fn a_name_is_used_once() {
    let directory = TempDir::new().unwrap();
    let _first = Journal::create(directory.path(), "alpha").unwrap();
    Journal::create(directory.path(), "alpha").expect_err("the file exists");
}

#[test]
fn threads_share_a_journal() {
    let directory = TempDir::new().unwrap();
    let journals = ["alpha", "beta"].map(|who| Journal::create(directory.path(), who).unwrap());
    std::thread::scope(|scope| {
        for journal in journals.iter().flat_map(|journal| [journal; 4]) {
            scope.spawn(|| {
                for n in 0..100 {
                    journal.invoke(cancel(n)).ok(Answer::Done { changed: true, state: State::Cancelled });
                }
            });
        }
    });
    let events = read(directory.path()).unwrap();
    assert_eq!(events.len(), 2 * 4 * 100 * 2);
    let found = crate::conformance::checker::check(&events, &[], true);
    assert_eq!(found, [], "every operation has one end");
}

/// A kill leaves any part of the last line; whatever it is, what came before is read.
#[test]
fn a_torn_last_line_is_left_out() {
    let directory = TempDir::new().unwrap();
    let journal = Journal::create(directory.path(), "alpha").unwrap();
    let answer = Answer::Done { changed: true, state: State::Cancelled };
    journal.invoke(cancel(1)).ok(answer);
    let path = directory.path().join("alpha.jsonl");
    let whole = fs::read(&path).unwrap();
    let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for cut in 0..=whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let lines = usize::from(cut >= first) + usize::from(cut == whole.len());
        assert_eq!(read(directory.path()).unwrap().len(), lines, "cut at {cut}");
    }
}

#[test]
fn damage_elsewhere_is_an_error() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("alpha.jsonl");
    let journal = Journal::create(directory.path(), "alpha").unwrap();
    journal.invoke(cancel(1)).unknown();
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"at\":1,\"wh").unwrap();
    journal.invoke(cancel(2)).unknown();
    let damaged = read(directory.path()).unwrap_err();
    assert!(matches!(damaged, Damaged::Line { line: 3, .. }), "{damaged}");
    assert!(damaged.to_string().contains("alpha.jsonl"), "{damaged}");
    let missing = read(&directory.path().join("nowhere")).unwrap_err();
    assert!(matches!(missing, Damaged::Unreadable { .. }), "{missing}");
}

/// A store that does not know whether it did something is believed.
#[test]
fn the_answer_of_a_store_decides_the_end() {
    let directory = TempDir::new().unwrap();
    let journal = Journal::create(directory.path(), "alpha").unwrap();
    for error in [Error::Unknown("the device failed".into()), Error::Closed] {
        journal.invoke(Op::Prune).end::<Answer>(Err(&error));
    }
    let ends: Vec<_> = read(directory.path()).unwrap().into_iter().map(|event| event.what).collect();
    let ends: Vec<_> = ends
        .iter()
        .filter_map(|what| match what {
            What::Ended { end, .. } => Some(end),
            _ => None,
        })
        .collect();
    assert!(matches!(ends[..], [End::Unknown, End::Failed(_)]), "{ends:?}");
}

#[test]
fn a_directory_and_a_store_are_checked() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (directory, store) = (TempDir::new().unwrap(), MemoryStore::default());
        let journal = Journal::create(directory.path(), "alpha").unwrap();
        journal.submit(&store, vec![task(id(1))]).await.unwrap();
        assert_eq!(check_store(directory.path(), &store, false).await, []);
        assert_eq!(check_store(directory.path(), &store, true).await.len(), 1, "it is unfinished");
        let cancel = Command::Cancel { task: id(1), by: windlass_core::By::default() };
        let turn = Turn { commands: vec![cancel], ..Turn::default() };
        journal.turn(&store, turn.clone()).await.unwrap();
        assert_eq!(check_store(directory.path(), &store, true).await, []);
        store.close().await.unwrap();
        journal.turn(&store, turn).await.unwrap_err();
        let events = read(directory.path()).unwrap();
        let failed = |what: &What| matches!(what, What::Ended { end: End::Failed(_), .. });
        assert!(failed(&events.last().unwrap().what), "{events:?}");
    });
}
