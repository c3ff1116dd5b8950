//! Bells: who rings, who hears it, and when nobody asks.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::super::RemoteStore;
use super::super::options::ANSWER;
use super::super::responder::Responder;
use super::super::transport::{Errand, Lost, Parcel, Transport};
use super::task;
use crate::verbs::{Call, ConnectionCall};
use crate::{MemoryStore, Store, Writes};

/// A way that can be cut, to a server that can be another one all of a sudden.
#[derive(Debug)]
struct Cable {
    server: Mutex<Arc<Responder>>,
    cut: AtomicBool,
    /// Questions that wait now, and that were asked in all.
    waiting: AtomicUsize,
    asked: AtomicUsize,
    changed: Notify,
}

impl Cable {
    fn new(store: Arc<MemoryStore>) -> Arc<Self> {
        Arc::new(Self {
            server: Mutex::new(Arc::new(Responder::new(store, 1, "test"))),
            cut: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            asked: AtomicUsize::new(0),
            changed: Notify::new(),
        })
    }

    /// Comes when so many questions wait.
    async fn waits(&self, many: usize) {
        let reached = async {
            loop {
                let changed = self.changed.notified();
                if self.waiting.load(Ordering::SeqCst) == many {
                    return;
                }
                changed.await;
            }
        };
        timeout(Duration::from_secs(20), reached).await.expect("a question waits, or does not");
    }
}

/// A question that waits, until it is answered or given up.
struct Waiting<'c>(&'c Cable);

impl<'c> Waiting<'c> {
    fn new(cable: &'c Cable) -> Self {
        cable.waiting.fetch_add(1, Ordering::SeqCst);
        cable.asked.fetch_add(1, Ordering::SeqCst);
        cable.changed.notify_waiters();
        Self(cable)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
        self.0.changed.notify_waiters();
    }
}

#[async_trait]
impl Transport for Cable {
    async fn exchange(&self, parcel: Parcel) -> Result<Bytes, Lost> {
        let server = self.server.lock().unwrap().clone();
        let call = Responder::read(&parcel.body).unwrap();
        let is_cut = || self.cut.load(Ordering::SeqCst);
        if is_cut() {
            return Err(Lost::Unsent("cut".into()));
        }
        if let Call::Connection(ConnectionCall::Watch { server: known, heard }) = &call {
            let _waiting = Waiting::new(self);
            tokio::select! {
                () = server.wait(*known, *heard) => {}
                () = async {
                    loop {
                        let changed = self.changed.notified();
                        if is_cut() {
                            return;
                        }
                        changed.await;
                    }
                } => return Err(Lost::Unanswered("cut".into())),
            }
        }
        Ok(server.answer(call).await.into())
    }

    fn spawn(&self, errand: Errand) {
        tokio::spawn(errand);
    }

    fn place(&self) -> String {
        "a cable".into()
    }
}

async fn open(cable: &Arc<Cable>) -> RemoteStore {
    RemoteStore::open(cable.clone(), ANSWER).await.unwrap()
}

#[tokio::test]
async fn one_question_waits_while_somebody_listens() {
    let server = Arc::new(MemoryStore::default());
    let cable = Cable::new(server.clone());
    let store = open(&cable).await;
    assert_eq!(cable.asked.load(Ordering::SeqCst), 0);
    let (mut one, mut other) = (store.watch(), store.watch());
    cable.waits(1).await;
    for n in 1..5 {
        server.submit(vec![task(n)]).await.unwrap();
        for rings in [&mut one, &mut other] {
            let rang = rings.wait_for(|rings| rings.claimable == u64::from(n));
            timeout(Duration::from_secs(20), rang).await.expect("it rings").unwrap();
        }
        cable.waits(1).await;
    }
    drop(one);
    cable.waits(1).await;
    drop(other);
    cable.waits(0).await;
    let again = store.watch();
    cable.waits(1).await;
    store.close().await.unwrap();
    cable.waits(0).await;
    drop((store.watch(), again));
    cable.waits(0).await;
}

#[tokio::test]
async fn a_store_that_is_dropped_asks_no_more() {
    let cable = Cable::new(Arc::new(MemoryStore::default()));
    let store = open(&cable).await;
    let _rings = store.watch();
    cable.waits(1).await;
    drop(store);
    cable.waits(0).await;
}

/// What one does oneself is heard with the answer, whether the question is under way or not.
#[tokio::test]
async fn what_one_does_oneself_is_heard_with_the_answer() {
    let cable = Cable::new(Arc::new(MemoryStore::default()));
    let store = open(&cable).await;
    store.submit(vec![task(1)]).await.unwrap();
    let rings = store.watch();
    assert_eq!(rings.borrow().claimable, 1);
    store.submit(vec![task(2)]).await.unwrap();
    assert_eq!((rings.borrow().claimable, rings.borrow().settled), (2, 0));
}

#[tokio::test]
async fn after_a_silence_every_bell_rings() {
    let server = Arc::new(MemoryStore::default());
    let cable = Cable::new(server.clone());
    let store = open(&cable).await;
    let mut rings = store.watch();
    cable.waits(1).await;
    let before = *rings.borrow_and_update();
    cable.cut.store(true, Ordering::SeqCst);
    cable.changed.notify_waiters();
    cable.waits(0).await;
    // Another start of the server, whose bells begin anew.
    let other = Arc::new(Responder::new(server.clone(), 2, "test"));
    *cable.server.lock().unwrap() = other;
    cable.cut.store(false, Ordering::SeqCst);
    let all = rings.wait_for(|now| {
        now.claimable > before.claimable
            && now.timed > before.timed
            && now.settled > before.settled
            && now.revoked > before.revoked
    });
    timeout(Duration::from_secs(20), all).await.expect("all of them").unwrap();
    cable.waits(1).await;
    let heard = rings.borrow_and_update().claimable;
    server.submit(vec![task(1)]).await.unwrap();
    let rang = rings.wait_for(|now| now.claimable > heard);
    timeout(Duration::from_secs(20), rang).await.expect("it rings").unwrap();
}
