//! As much of PostgreSQL's protocol as it takes to see the answer to a commit.
//!
//! The answers alone tell it: a server that carried out `COMMIT` says `COMMIT`, and one that rolled back
//! instead says `ROLLBACK`, whichever way the statement was sent. Of what the client sends only the very
//! beginning matters, because the answer to "may we encrypt?" is a single byte and no message.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The codes that stand in place of a protocol version in a request for TLS or GSSAPI encryption.
const ENCRYPTION: [u32; 2] = [80_877_103, 80_877_104];

/// The type of the message that tells how a command ended.
const COMMAND_COMPLETE: u8 = b'C';

/// The major version of the protocol, in the upper half of its number.
const VERSION: u32 = 3;

/// What the client has sent, until it has said who it is.
#[derive(Debug, Default)]
pub(super) struct Requests {
    start: Vec<u8>,
    started: bool,
    spoken: Arc<Spoken>,
}

/// What the beginning of the requests means for the answers.
#[derive(Debug, Default)]
struct Spoken {
    /// Whether this is PostgreSQL's protocol. Its server says nothing before that is known.
    postgres: AtomicBool,
    /// How many requests for encryption have been sent and not been answered.
    encryption_asked: AtomicU32,
}

impl Requests {
    /// To be called before the bytes go on, so that their answer is expected when it comes.
    pub(super) fn see(&mut self, bytes: &[u8]) {
        if self.started {
            return;
        }
        self.start.extend_from_slice(bytes);
        // Length and code, four bytes each.
        while let Some((message, rest)) = self.start.split_at_checked(8) {
            let code = number(&message[4..]);
            let asks_encryption = ENCRYPTION.contains(&code);
            if asks_encryption || code >> 16 == VERSION {
                self.spoken.postgres.store(true, Ordering::SeqCst);
            }
            if !asks_encryption {
                self.started = true;
                self.start = Vec::new();
                return;
            }
            self.spoken.encryption_asked.fetch_add(1, Ordering::SeqCst);
            self.start = rest.to_vec();
        }
    }
}

/// A piece of what the server sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// The answer to a commit that was carried out.
    Commit(Vec<u8>),
    /// Anything else, up to the next such answer.
    Other(Vec<u8>),
}

/// Cuts what the server sends into messages. They are passed on whole.
#[derive(Debug)]
pub(super) struct Answers {
    held: Vec<u8>,
    spoken: Arc<Spoken>,
    /// What follows is encrypted and cannot be read.
    encrypted: bool,
}

impl Answers {
    pub(super) fn to(requests: &Requests) -> Self {
        Self { held: Vec::new(), spoken: Arc::clone(&requests.spoken), encrypted: false }
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    /// What is left of a message that the server did not finish.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        mem::take(&mut self.held)
    }

    /// The next piece that is complete.
    pub(super) fn next(&mut self) -> Option<Seen> {
        let mut end = 0;
        while let Some(length) = self.length_at(end) {
            if is_commit(&self.held[end..end + length]) {
                if end == 0 {
                    return Some(Seen::Commit(self.take(length)));
                }
                break;
            }
            end += length;
        }
        (end > 0).then(|| Seen::Other(self.take(end)))
    }

    /// The length of the message that begins there, if all of it has come.
    fn length_at(&mut self, start: usize) -> Option<usize> {
        let held = &self.held[start..];
        let first = *held.first()?;
        if self.encrypted || !self.spoken.postgres.load(Ordering::SeqCst) {
            return Some(held.len());
        }
        let one_less = |left: u32| left.checked_sub(1);
        let asked = &self.spoken.encryption_asked;
        if asked.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
            // `N` refuses. After anything else there is nothing to read here.
            self.encrypted = first != b'N';
            return Some(1);
        }
        // The length counts itself but not the type before it.
        let length = usize::try_from(number(held.get(1..5)?)).ok()?.max(4) + 1;
        (held.len() >= length).then_some(length)
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        let rest = self.held.split_off(length);
        mem::replace(&mut self.held, rest)
    }
}

/// Type, length, and the words `COMMIT` with a zero at the end; `COMMIT PREPARED` is something else.
fn is_commit(message: &[u8]) -> bool {
    message.first() == Some(&COMMAND_COMPLETE) && message.get(5..) == Some(b"COMMIT\0")
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |number, byte| number << 8 | u32::from(*byte))
}

#[cfg(test)]
mod tests;
