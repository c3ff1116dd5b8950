//! Identities. Made outside (this crate has no randomness), carried everywhere.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use uuid::Uuid;

use crate::limits;
use crate::name::check_key;
use crate::rejected::Invalid;

/// The identity of a task: a UUID, by convention version 7.
///
/// The submitter chooses it, so that a submit whose answer was lost can be looked up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(Uuid);

impl TaskId {
    /// From a UUID of any version.
    #[must_use]
    pub fn new(uuid: Uuid) -> Self {
        Self(uuid)
    }

    /// From the 16 bytes that a store keeps.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// The 16 bytes that a store keeps.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

/// Accepts the usual form and 32 hexadecimal digits without dashes.
impl FromStr for TaskId {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let uuid = Uuid::try_parse(text).map_err(|_| {
            Invalid::new("task id", text, "a UUID such as 01890a5d-ac96-774b-bcce-b302099a8057")
        })?;
        Ok(Self(uuid))
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The identity of one start of one worker: fresh at every boot (`host-pid-random`), never a mere name. Cheap
/// to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WorkerId(Arc<str>);

impl WorkerId {
    /// Checks `text`: 1 to 512 bytes without NUL.
    pub fn new(text: impl Into<Arc<str>>) -> Result<Self, Invalid> {
        let text = text.into();
        check_key("worker id", &text, limits::KEY_BYTES)?;
        Ok(Self(text))
    }

    /// An id that a store reads back from its own rows.
    #[must_use]
    pub fn stored(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The text of the id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Counts the claims of one task. With the task's id it is the fencing token: every write about a claim
/// names it, and a number is never used again.
pub type Lease = u32;

/// Counts the reigns of leaders. Every write of a leader names its term.
pub type Term = u64;

/// The right to finish one claim, as its holder proves it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Token {
    /// The task that was claimed.
    pub task: TaskId,
    /// The number of the claim.
    pub lease: Lease,
    /// Who claimed it.
    pub worker: WorkerId,
}
