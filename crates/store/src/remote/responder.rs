//! The server's side of the protocol: reads calls, has them run, and writes the answers.

use std::sync::Arc;

use serde::Serialize;
use tokio::sync::watch;

use super::protocol::{Hello, Reply, ReplyHeader, SentWorkflow, check_received};
use crate::error::{Error, Result};
use crate::request::Rings;
use crate::verbs::{Call, ConnectionCall, GetWorkflow, Runner, Store, Verb};

/// Answers calls for a store. It lets every call through: [`Gatekeeper`] decides what a caller may do.
#[derive(Debug)]
pub struct Responder {
    store: Arc<dyn Store>,
    rings: watch::Receiver<Rings>,
    server: u64,
    version: String,
}

/// Runs verbs for one caller, and decides what that caller may do.
pub trait Gatekeeper: Sync {
    /// Why a call was not run at all. What the store itself refuses is part of the answer.
    type Refusal: Send;

    /// Runs a verb, if the caller may.
    fn run<V: Verb>(&self, verb: V) -> impl Future<Output = Result<Result<V::Answer>, Self::Refusal>> + Send;
}

impl Responder {
    /// For the store of a server. `server` is a number that no other server, and no other start of this one,
    /// has.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, server: u64, version: impl Into<String>) -> Self {
        Self { rings: store.watch(), store, server, version: version.into() }
    }

    /// Reads a call, and checks all of it that no store checks.
    pub fn read(body: &[u8]) -> Result<Call> {
        let call: Call = serde_json::from_slice(body)
            .map_err(|error| Error::Unusable(format!("what was sent is no call: {error}")))?;
        check_received(&call)?;
        Ok(call)
    }

    /// Waits for a wake-up that is not `heard`. Ends at once if that was counted by another server.
    pub async fn wait(&self, server: u64, heard: Rings) {
        if server == self.server {
            // A store that is gone wakes nobody any more; the caller had better find out.
            let _ = self.rings.clone().wait_for(|rings| *rings != heard).await;
        }
    }

    /// Runs a call without asking who calls, and gives the answer as it is sent.
    pub async fn answer(&self, call: Call) -> Vec<u8> {
        let Ok(answer) = self.answer_through(&Open(&*self.store), call).await;
        answer
    }

    /// Has `gate` run a call, and gives the answer as it is sent. A [`ConnectionCall::Watch`] is answered at
    /// once: see [`Responder::wait`].
    pub async fn answer_through<G: Gatekeeper>(&self, gate: &G, call: Call) -> Result<Vec<u8>, G::Refusal> {
        call.run_by(&Encoder { responder: self, gate }).await
    }

    /// The answer to a call that was not carried out.
    #[must_use]
    pub fn refusal(&self, error: Error) -> Vec<u8> {
        self.encode::<()>(Err(error))
    }

    fn encode<T: Serialize>(&self, answer: Result<T>) -> Vec<u8> {
        let (rings, connections) = (*self.rings.borrow(), self.store.connections());
        let told = ReplyHeader { server: self.server, rings, connections };
        // Nothing in it can fail to be written: there are no maps but those with texts as keys.
        serde_json::to_vec(&Reply { told, answer }).unwrap_or_default()
    }
}

/// Lets everybody do everything.
struct Open<'s>(&'s dyn Store);

impl Gatekeeper for Open<'_> {
    type Refusal = std::convert::Infallible;

    async fn run<V: Verb>(&self, verb: V) -> Result<Result<V::Answer>, Self::Refusal> {
        Ok(verb.run(self.0).await)
    }
}

/// Encodes what a gate's verbs answer.
struct Encoder<'r, G> {
    responder: &'r Responder,
    gate: &'r G,
}

impl<G: Gatekeeper> Runner for Encoder<'_, G> {
    type Reply = Result<Vec<u8>, G::Refusal>;

    async fn run<V: Verb>(&self, verb: V) -> Self::Reply {
        Ok(self.responder.encode(self.gate.run(verb).await?))
    }

    async fn run_connection_call(&self, call: ConnectionCall) -> Self::Reply {
        let Responder { version, store, .. } = self.responder;
        Ok(match call {
            ConnectionCall::Hello {} => {
                let hello = Hello { version: version.clone(), turns_at_once: store.turns_at_once() };
                self.responder.encode(Ok(hello))
            }
            ConnectionCall::Watch { .. } => self.responder.encode(Ok(())),
            ConnectionCall::GetWorkflow { id, known } => {
                let found = self.gate.run(GetWorkflow { id }).await?;
                self.responder.encode(found.map(|found| found.map(|record| SentWorkflow::of(record, known))))
            }
        })
    }
}
