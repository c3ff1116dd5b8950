//! A server in the same process, asked through the same bytes: for tests of everything but the network.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::time::timeout;

use super::protocol::LONGEST_WATCH;
use super::responder::Responder;
use super::transport::{Errand, Lost, Parcel, Transport};
use crate::verbs::{Call, ConnectionCall, Store};

#[derive(Debug)]
pub(super) struct Loopback(Arc<Responder>);

impl Loopback {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        static SERVERS: AtomicU64 = AtomicU64::new(1);
        let server = SERVERS.fetch_add(1, Ordering::Relaxed);
        Self::with(Responder::new(store, server, "in this process"))
    }

    pub(super) fn with(server: Responder) -> Self {
        Self(Arc::new(server))
    }
}

#[async_trait]
impl Transport for Loopback {
    async fn exchange(&self, parcel: Parcel) -> Result<Bytes, Lost> {
        let call = match Responder::read(&parcel.body) {
            Ok(call) => call,
            Err(error) => return Ok(self.0.refusal(error).into()),
        };
        if let Call::Connection(ConnectionCall::Watch { server, heard }) = &call {
            let _ = timeout(LONGEST_WATCH, self.0.wait(*server, *heard)).await;
        }
        Ok(self.0.answer(call).await.into())
    }

    fn spawn(&self, errand: Errand) {
        tokio::spawn(errand);
    }

    fn place(&self) -> String {
        "this process".into()
    }
}
