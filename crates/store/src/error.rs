//! What a store answers when it cannot do what was asked.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use windlass_core::{Invalid, Rejected};

/// A store's answer.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a store did not do what was asked. Except for [`Error::Unknown`], nothing was changed.
#[derive(Clone, PartialEq, Eq, Debug, Error, Serialize, Deserialize)]
pub enum Error {
    /// The request was understood and refused.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// One task of a batch was refused, and with it the batch.
    #[error("task {} of the batch: {rejected}; nothing of the batch was submitted", .index + 1)]
    InBatch {
        /// Its place, counted from 0.
        index: usize,
        /// Why.
        rejected: Rejected,
    },
    /// The store was closed.
    #[error("the store is closed; open it again")]
    Closed,
    /// The store cannot write or read now: a full disk, a lock that is not given up, a failed device. Nothing
    /// was changed, and the request may be repeated.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The store failed in the very moment of making a change durable, so it is not known whether it was
    /// made. Resolve it by reading the task, never by blind repetition.
    #[error("it is unknown whether the change was made: {0}; read the task to find out")]
    Unknown(String),
    /// The database or server cannot be used by this version, or is none of Windlass at all.
    #[error("the store cannot be used: {0}")]
    Unusable(String),
    /// The store's file was removed, moved or replaced while it was open. Nothing was changed, and nothing is
    /// accepted until the store is opened again.
    #[error(
        "the store's file is not where it was: {0}; put it back or restore a backup, then open the store again"
    )]
    Moved(String),
    /// The server that the store is does not let this program do that.
    #[error("the server does not allow it: {0}")]
    Forbidden(String),
}

impl Error {
    /// The refusal, if the request was refused.
    #[must_use]
    pub fn rejected(&self) -> Option<&Rejected> {
        match self {
            Self::Rejected(rejected) | Self::InBatch { rejected, .. } => Some(rejected),
            Self::Closed
            | Self::Unavailable(_)
            | Self::Unknown(_)
            | Self::Unusable(_)
            | Self::Moved(_)
            | Self::Forbidden(_) => None,
        }
    }

    /// A stable word for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Rejected(rejected) | Self::InBatch { rejected, .. } => rejected.code(),
            Self::Closed => "store_closed",
            Self::Unavailable(_) => "unavailable",
            Self::Unknown(_) => "unknown_outcome",
            Self::Unusable(_) => "unusable",
            Self::Moved(_) => "store_moved",
            Self::Forbidden(_) => "forbidden",
        }
    }
}

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Self {
        Self::Rejected(invalid.into())
    }
}
