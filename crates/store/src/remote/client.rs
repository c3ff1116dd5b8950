//! The client's side of the protocol: every verb is one request. The methods come from the table of verbs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use tokio::sync::{RwLock, watch};
use windlass_core::{Connections, WorkerId, WorkerSecret};

use super::bells::Bells;
use super::protocol::{Hello, Reply, check_sendable};
use super::transport::{Parcel, Transport};
use crate::error::{Error, Result};
use crate::request::Rings;
use crate::verbs::{Call, ConnectionCall, Store, Verb, WorkerProof};

/// Sends every verb to a server.
#[derive(Debug)]
pub struct RemoteCalls {
    transport: Arc<dyn Transport>,
    bells: Arc<Bells>,
    hello: Hello,
    patience: Duration,
    connections: Mutex<Connections>,
    /// Of the workers that were registered here. They are made here, so that a registration whose answer was
    /// lost can be sent again.
    secrets: Mutex<HashMap<WorkerId, WorkerSecret>>,
    closed: RwLock<bool>,
}

impl RemoteCalls {
    /// Asks the server what it is.
    pub(super) async fn open(transport: Arc<dyn Transport>, patience: Duration) -> Result<Self> {
        let mut calls = Self {
            transport,
            bells: Arc::default(),
            hello: Hello { version: String::new(), turns_at_once: 1 },
            patience,
            connections: Mutex::default(),
            secrets: Mutex::default(),
            closed: RwLock::new(false),
        };
        calls.hello = calls.ask_connection(ConnectionCall::Hello {}).await?;
        Ok(calls)
    }

    /// Where the server is, for people.
    pub(super) fn place(&self) -> String {
        self.transport.place()
    }

    /// The version of the server's program.
    pub(super) fn version(&self) -> &str {
        &self.hello.version
    }

    pub(super) async fn check_open(&self) -> Result<()> {
        if *self.closed.read().await { Err(Error::Closed) } else { Ok(()) }
    }

    /// Has the server run a verb.
    pub(crate) async fn ask<V: Verb>(&self, verb: V) -> Result<V::Answer> {
        let secret = self.secret(&verb)?;
        self.send(verb.into(), secret, V::WRITES).await
    }

    /// Asks what is no verb.
    pub(super) async fn ask_connection<T: DeserializeOwned>(&self, call: ConnectionCall) -> Result<T> {
        self.send(Call::Connection(call), None, false).await
    }

    /// The secret of the worker that a verb names. A verb of a worker names one.
    fn secret<V: Verb>(&self, verb: &V) -> Result<Option<WorkerSecret>> {
        let Some(proof) = verb.access().proofs.first().copied() else { return Ok(None) };
        let mut secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        if let (WorkerProof::Registers(worker), None) = (proof, secrets.get(proof.worker())) {
            let mut random = [0; 32];
            getrandom::fill(&mut random)
                .map_err(|error| Error::Unusable(format!("there are no random numbers: {error}")))?;
            secrets.insert(worker.clone(), WorkerSecret::new(random));
        }
        Ok(secrets.get(proof.worker()).cloned())
    }

    async fn send<T: DeserializeOwned>(
        &self,
        call: Call,
        secret: Option<WorkerSecret>,
        writes: bool,
    ) -> Result<T> {
        // Closing waits for what is under way.
        let closed = self.closed.read().await;
        if *closed {
            return Err(Error::Closed);
        }
        check_sendable(&call)?;
        let body = serde_json::to_vec(&call)
            .map_err(|error| Error::Unusable(format!("the request cannot be written: {error}")))?;
        let parcel = Parcel { body: body.into(), secret, writes, waits: false, patience: self.patience };
        let answer = self.transport.exchange(parcel).await.map_err(|lost| lost.error(writes))?;
        let reply: Reply<T> = serde_json::from_slice(&answer).map_err(|error| {
            let place = self.place();
            let why = format!("the answer of {place} cannot be read ({error}); use the same version of both");
            if writes { Error::Unknown(why) } else { Error::Unusable(why) }
        })?;
        self.bells.learn(&reply.told);
        *self.connections.lock().unwrap_or_else(PoisonError::into_inner) = reply.told.connections;
        reply.answer.map_err(|error| match error {
            Error::Closed => Error::Unavailable("the server has closed its store; it is stopping".into()),
            // A server that is started again finds its file, so it is worth waiting for.
            Error::Moved(why) => Error::Unavailable(format!("the server has lost its store: {why}")),
            error => error,
        })
    }
}

impl Drop for RemoteCalls {
    fn drop(&mut self) {
        self.bells.close();
    }
}

#[async_trait]
impl Store for RemoteCalls {
    fn watch(&self) -> watch::Receiver<Rings> {
        self.bells.watch(&self.transport)
    }

    /// Lets what is under way end, and asks no more. The server's store is not this one's to close.
    async fn close(&self) -> Result<()> {
        *self.closed.write().await = true;
        self.bells.close();
        Ok(())
    }

    fn turns_at_once(&self) -> usize {
        self.hello.turns_at_once
    }

    /// Those of the server's store, as of the last answer.
    fn connections(&self) -> Connections {
        *self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
