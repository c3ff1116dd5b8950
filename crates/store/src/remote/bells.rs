//! The bells of a server, heard from afar.
//!
//! Every answer tells what has rung, so what a program does itself it hears of at once. What others do it
//! hears of by one question that the server leaves open until something rings. The question is asked only
//! while somebody listens.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tracing::debug;

use super::protocol::{LONGEST_WATCH, Reply, ReplyHeader};
use super::transport::{Parcel, Transport};
use crate::request::Rings;
use crate::verbs::{Call, ConnectionCall};

/// How long to wait after a question that was not answered, at first and at most.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];

/// How much longer than the server waits its answer may take.
const ON_THE_WAY: Duration = Duration::from_secs(10);

/// An answer without news that comes sooner was not worth asking for.
const TOO_SOON: Duration = Duration::from_secs(1);

/// Servers that are told apart: more than stand behind one address.
const SERVERS: usize = 64;

/// What is known of bells.
#[derive(Debug)]
pub(super) struct Bells {
    here: watch::Sender<Rings>,
    heard: Mutex<Heard>,
    closed: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Heard {
    /// What has rung at each server, the one that was heard of last at the end.
    servers: Vec<(u64, Rings)>,
    /// Whether the question is being asked.
    is_listening: bool,
}

impl Default for Bells {
    fn default() -> Self {
        Self { here: watch::Sender::default(), heard: Mutex::default(), closed: watch::Sender::new(false) }
    }
}

impl Bells {
    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes on what an answer tells. Answers overtake each other, so only more is news; and what a server
    /// rang before it was ever heard of is not.
    pub(super) fn learn(&self, told: &ReplyHeader) {
        let ReplyHeader { server, rings, .. } = *told;
        let mut heard = self.heard();
        let known = heard.servers.iter().position(|(known, _)| *known == server);
        let before = known.map_or(rings, |place| heard.servers.remove(place).1);
        heard.servers.push((server, before.latest(rings)));
        if heard.servers.len() > SERVERS {
            heard.servers.remove(0);
        }
        self.here.send_if_modified(|here| here.add(before, rings));
    }

    /// Rings all of them, for what may have been missed.
    fn ring_all(&self) {
        self.here.send_modify(Rings::ring_all);
    }

    /// What was last heard of, and from whom.
    fn last(&self) -> (u64, Rings) {
        self.heard().servers.last().copied().unwrap_or_default()
    }

    /// Listens, and asks the question if nobody does.
    pub(super) fn watch(self: &Arc<Self>, transport: &Arc<dyn Transport>) -> watch::Receiver<Rings> {
        let receiver = self.here.subscribe();
        let mut heard = self.heard();
        if !heard.is_listening && !*self.closed.borrow() {
            heard.is_listening = true;
            transport.spawn(Box::pin(listen(self.clone(), transport.clone())));
        }
        receiver
    }

    /// No more questions.
    pub(super) fn close(&self) {
        self.closed.send_replace(true);
    }

    /// Whether the question need not be asked any more.
    fn is_over(&self) -> bool {
        let mut heard = self.heard();
        // Under the lock: who begins to listen now finds the question unasked.
        heard.is_listening = self.here.receiver_count() > 0 && !*self.closed.borrow();
        !heard.is_listening
    }

    /// Comes when nobody listens.
    async fn over(&self) {
        let mut closed = self.closed.subscribe();
        tokio::select! {
            _ = closed.wait_for(|closed| *closed) => {}
            () = self.here.closed() => {}
        }
    }
}

/// Asks the question again and again.
async fn listen(bells: Arc<Bells>, transport: Arc<dyn Transport>) {
    let (mut pause, mut lost) = (PAUSES[0], false);
    while !bells.is_over() {
        let begun = Instant::now();
        let (server, rings) = bells.last();
        // After a silence the first answer is to come at once: whatever rang meanwhile was missed.
        let call =
            if lost { ConnectionCall::Hello {} } else { ConnectionCall::Watch { server, heard: rings } };
        let answer = tokio::select! {
            biased;
            () = bells.over() => continue,
            answer = ask(&*transport, call) => answer,
        };
        let was_lost = std::mem::replace(&mut lost, answer.is_none());
        if let Some(told) = answer {
            let is_news = was_lost || told.server != server;
            bells.learn(&told);
            if is_news {
                bells.ring_all();
            }
            let is_soon = begun.elapsed() < TOO_SOON;
            if !was_lost && (told.rings != rings || !is_soon) && told.server == server {
                pause = PAUSES[0];
                continue;
            }
            if was_lost {
                continue;
            }
        }
        tokio::select! {
            biased;
            () = bells.over() => {}
            () = sleep(pause) => {}
        }
        pause = (pause * 2).min(PAUSES[1]);
    }
}

/// What the server tells, whatever else it answers.
async fn ask(transport: &dyn Transport, call: ConnectionCall) -> Option<ReplyHeader> {
    let waits = matches!(call, ConnectionCall::Watch { .. });
    let body: Bytes = serde_json::to_vec(&Call::Connection(call)).ok()?.into();
    let patience = if waits { LONGEST_WATCH + ON_THE_WAY } else { ON_THE_WAY };
    let answer = transport.exchange(Parcel { body, secret: None, writes: false, waits, patience }).await;
    let answer = answer.inspect_err(|lost| debug!(?lost, "the server's bells cannot be heard")).ok()?;
    let reply: Reply<serde::de::IgnoredAny> = serde_json::from_slice(&answer).ok()?;
    Some(reply.told)
}
