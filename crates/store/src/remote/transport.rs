//! How a call gets to a server and its answer back, whatever that is by.

use std::fmt::Debug;
use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use windlass_core::WorkerSecret;

use crate::error::Error;

/// A call on its way.
#[derive(Clone, Debug)]
pub(super) struct Parcel {
    pub(super) body: Bytes,
    /// The secret of the worker that it names.
    pub(super) secret: Option<WorkerSecret>,
    /// Whether it may change something. One that does goes on when nobody waits for the answer any more; the
    /// others end then.
    pub(super) writes: bool,
    /// Whether the server answers only when there is something to tell.
    pub(super) waits: bool,
    /// How long the answer may take.
    pub(super) patience: Duration,
}

/// Why there is no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Lost {
    /// Nothing was sent.
    Unsent(String),
    /// It was sent, or some of it. What became of it is not known.
    Unanswered(String),
    /// It was not let in: nothing was done.
    Refused(Error),
}

impl Lost {
    /// What a caller is told.
    pub(super) fn error(self, writes: bool) -> Error {
        match self {
            Self::Unanswered(why) if writes => Error::Unknown(why),
            Self::Unsent(why) | Self::Unanswered(why) => Error::Unavailable(why),
            Self::Refused(error) => error,
        }
    }
}

/// Something that is done beside calls.
pub(super) type Errand = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A way to a server.
#[async_trait]
pub(super) trait Transport: Debug + Send + Sync + 'static {
    /// Sends a call and gives the answer.
    async fn exchange(&self, parcel: Parcel) -> Result<Bytes, Lost>;

    /// Has `errand` done, wherever this is called from.
    fn spawn(&self, errand: Errand);

    /// Where the server is, for people.
    fn place(&self) -> String;
}
