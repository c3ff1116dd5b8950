//! A store around a store: one place to run code around every verb, for metrics, spans, or failures made on
//! purpose.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;
use windlass_core::Connections;

use crate::error::Result;
use crate::request::Rings;
use crate::verbs::{Store, Wrap};

/// A store with code around every verb.
#[derive(Debug)]
pub struct Wrapped<W> {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) wrap: W,
}

impl<W> Wrapped<W> {
    /// Puts `wrap` around `inner`.
    pub fn new(inner: Arc<dyn Store>, wrap: W) -> Self {
        Self { inner, wrap }
    }
}

#[async_trait]
impl<W: Wrap> Store for Wrapped<W> {
    fn watch(&self) -> watch::Receiver<Rings> {
        self.wrap.watch(&*self.inner)
    }

    async fn close(&self) -> Result<()> {
        self.wrap.call("close", self.inner.close()).await
    }

    fn turns_at_once(&self) -> usize {
        self.wrap.turns_at_once(&*self.inner)
    }

    fn connections(&self) -> Connections {
        self.wrap.connections(&*self.inner)
    }
}
