//! The secrets of workers: which call carries which, and what becomes of one whose registration was not
//! answered.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use windlass_core::{Name, NewWorker, Token, WorkerId};

use super::super::loopback::Loopback;
use super::super::options::ANSWER;
use super::super::transport::{Errand, Lost, Parcel, Transport};
use super::{super::RemoteStore, task};
use crate::{Claim, Error, Filter, MemoryStore, Page, Reads, Store, Turn, Writes};

/// Keeps what calls carry, and may lose the next answer.
#[derive(Clone)]
struct Recorder {
    server: Arc<Loopback>,
    sent: Arc<Mutex<Vec<Option<String>>>>,
    loses: Arc<Mutex<bool>>,
}

/// Without what it keeps.
impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Recorder")
    }
}

#[async_trait]
impl Transport for Recorder {
    async fn exchange(&self, parcel: Parcel) -> Result<Bytes, Lost> {
        self.sent.lock().unwrap().push(parcel.secret.as_ref().map(|secret| secret.text().to_owned()));
        let answer = self.server.exchange(parcel).await;
        match std::mem::take(&mut *self.loses.lock().unwrap()) {
            true => Err(Lost::Unanswered("lost on purpose".into())),
            false => answer,
        }
    }

    fn spawn(&self, errand: Errand) {
        self.server.spawn(errand);
    }

    fn place(&self) -> String {
        self.server.place()
    }
}

impl Recorder {
    fn new() -> Self {
        let server = Loopback::new(Arc::new(MemoryStore::default()));
        Self { server: Arc::new(server), sent: Arc::default(), loses: Arc::default() }
    }

    async fn open(&self) -> RemoteStore {
        RemoteStore::open(Arc::new(self.clone()), ANSWER).await.unwrap()
    }

    /// What the last call carried.
    fn last(&self) -> Option<String> {
        self.sent.lock().unwrap().last().unwrap().clone()
    }
}

fn worker(name: &str) -> NewWorker {
    NewWorker { kinds: vec![Name::stored("x")], ..NewWorker::new(WorkerId::new(name).unwrap()) }
}

#[tokio::test]
async fn every_call_of_a_worker_carries_its_secret_and_no_other_call_does() {
    let recorder = Recorder::new();
    let store = recorder.open().await;
    assert_eq!(recorder.last(), None);
    store.register(worker("a")).await.unwrap();
    let secret = recorder.last().unwrap();
    assert!(secret.starts_with("wlw_") && secret.len() == 68);
    store.register(worker("b")).await.unwrap();
    let other = recorder.last().unwrap();
    assert_ne!(secret, other);
    let me = WorkerId::new("a").unwrap();
    store.heartbeat(me.clone(), Vec::new()).await.unwrap();
    assert_eq!(recorder.last().as_ref(), Some(&secret));
    let claim = Claim {
        worker: me.clone(),
        namespace: Name::default(),
        queues: vec![Name::default()],
        kinds: vec![Name::stored("x")],
        limit: 1,
    };
    store.claim(claim).await.unwrap();
    assert_eq!(recorder.last().as_ref(), Some(&secret));
    let token = Token { task: task(1).id, lease: 1, worker: WorkerId::new("b").unwrap() };
    let release = windlass_core::Command::Release { token, note: None };
    store.turn(Turn { commands: vec![release], ..Turn::default() }).await.unwrap();
    assert_eq!(recorder.last().as_ref(), Some(&other));
    let held = Filter { worker: Some(me.clone()), ..Filter::default() };
    store.tasks(held, Page::default()).await.unwrap();
    assert_eq!(recorder.last().as_ref(), Some(&secret));
    store.tasks(Filter::default(), Page::default()).await.unwrap();
    assert_eq!(recorder.last(), None);
    store.submit(vec![task(2)]).await.unwrap();
    assert_eq!(recorder.last(), None);
    store.deregister(me).await.unwrap();
    assert_eq!(recorder.last(), Some(secret.clone()));
    assert!(!format!("{store:?}").contains(&secret[4..]), "it is in no log");
}

/// The server has the worker, and the program does not know it: with the same secret it may register again.
#[tokio::test]
async fn a_registration_whose_answer_was_lost_is_repeated_with_the_same_secret() {
    let recorder = Recorder::new();
    let store = recorder.open().await;
    *recorder.loses.lock().unwrap() = true;
    let lost = store.register(worker("a")).await;
    assert!(matches!(lost, Err(Error::Unknown(_))), "{lost:?}");
    let secret = recorder.last().unwrap();
    store.register(worker("a")).await.unwrap();
    assert_eq!(recorder.last(), Some(secret));
}
