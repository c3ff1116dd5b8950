//! How to open a server.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use windlass_core::Invalid;

use super::RemoteStore;
use super::address::Address;
use super::http::Http;
use super::tls;
use crate::error::{Error, Result};

/// How long the answer to a call may take, unless said otherwise.
pub(super) const ANSWER: Duration = Duration::from_secs(30);

/// Connections of one process, unless said otherwise, beside the one that listens for bells.
const CONNECTIONS: usize = 32;

/// How to open a server as a store.
///
/// ```no_run
/// # async fn example() -> Result<(), windlass_store::Error> {
/// use windlass_store::remote::Options;
///
/// let store = Options::new("https://queue.example.org")?.token("wl_…").open().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Options {
    address: Address,
    token: Option<String>,
    ca_file: Option<PathBuf>,
    patience: Duration,
    connections: usize,
}

/// Without the token.
impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Options {
    /// The server at `http://HOST:PORT` or `https://HOST:PORT`.
    pub fn new(address: &str) -> Result<Self> {
        let address = address.parse()?;
        Ok(Self { address, token: None, ca_file: None, patience: ANSWER, connections: CONNECTIONS })
    }

    /// With an access token, which a server needs as soon as it has any.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Trust the authorities whose certificates are in this file, in PEM form, beside the public ones.
    #[must_use]
    pub fn ca_file(mut self, path: impl AsRef<Path>) -> Self {
        self.ca_file = Some(path.as_ref().into());
        self
    }

    /// How long the answer to a call may take; 30 s unless said otherwise.
    #[must_use]
    pub fn answer_within(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// How many connections there may be, beside the one that listens; 32 unless said otherwise.
    #[must_use]
    pub fn connections(mut self, most: usize) -> Self {
        self.connections = most.max(1);
        self
    }

    /// Connects, and makes sure that the server speaks the same protocol and accepts the token.
    pub async fn open(self) -> Result<RemoteStore> {
        if let Some(token) = &self.token
            && (token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()))
        {
            // The secret is not quoted.
            let expected = "what `windlass token create` printed, without blanks";
            return Err(Error::from(Invalid::number(
                "token",
                format_args!("of {} bytes", token.len()),
                expected,
            )));
        }
        let tls = self.address.secure.then(|| tls::connector(self.ca_file.as_deref())).transpose()?;
        if self.ca_file.is_some() && tls.is_none() {
            let expected = "an https:// address, if a file of authorities is given";
            return Err(Invalid::new("server address", &self.address.to_string(), expected).into());
        }
        let http = Http::new(self.address, tls, self.token.as_deref(), self.connections)?;
        RemoteStore::open(Arc::new(http), self.patience).await
    }
}
