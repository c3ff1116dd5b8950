//! The secret of a worker that works over HTTP.
//!
//! A worker's id is no secret: it is in every list of workers, beside the leases that it holds. The secret is
//! what proves that a caller is that worker. The worker keeps it, and the store keeps its digest beside the
//! worker's row. A worker that opens the store directly has none.
//!
//! What it does *not* do: it makes no random numbers, and checks no caller; the server does.

use std::fmt::{self, Write};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What every secret begins with, so that it is recognised wherever it turns up.
const PREFIX: &str = "wlw_";

/// The secret of a worker, as it was made or sent.
#[derive(Clone, PartialEq, Eq)]
pub struct WorkerSecret(String);

impl WorkerSecret {
    /// A new secret: `wlw_` and 64 hexadecimal digits, from 256 random bits.
    #[must_use]
    pub fn new(random: [u8; 32]) -> Self {
        let text = random.iter().fold(PREFIX.to_owned(), |mut text, byte| {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
            text
        });
        Self(text)
    }

    /// A text that a caller sent. It may be no secret at all.
    #[must_use]
    pub fn sent(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Whether it has the form of a secret. A worker that chooses its own cannot choose one that is easily
    /// guessed by mistake.
    #[must_use]
    pub fn is_well_formed(&self) -> bool {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        self.0.strip_prefix(PREFIX).is_some_and(|digits| digits.len() == 64 && digits.bytes().all(is_digit))
    }

    /// Its text, to be sent or shown once.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// What the store keeps of it.
    #[must_use]
    pub fn digest(&self) -> SecretDigest {
        SecretDigest(Sha256::digest(self.0.as_bytes()).into())
    }
}

/// Without the secret.
impl fmt::Debug for WorkerSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WorkerSecret")
    }
}

/// The SHA-256 digest of a worker's secret.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretDigest([u8; 32]);

impl SecretDigest {
    /// A digest that a store reads back from its own rows; `None` if it is none.
    #[must_use]
    pub fn stored(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Without the digest, which belongs in no log.
impl fmt::Debug for SecretDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretDigest")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_has_a_form_and_a_digest() {
        let secret = WorkerSecret::new([0x0f; 32]);
        assert_eq!(secret.text(), format!("wlw_{}", "0f".repeat(32)));
        assert!(secret.is_well_formed());
        assert_eq!(secret.digest(), WorkerSecret::sent(secret.text()).digest());
        assert_ne!(secret.digest(), WorkerSecret::new([0xf0; 32]).digest());
        assert_eq!(SecretDigest::stored(secret.digest().bytes()), Some(secret.digest()));
        assert_eq!(SecretDigest::stored(b"short"), None);
        let text = secret.text();
        for bad in ["", "wlw_", &text[1..], &text[..67], &format!("{text}0"), &text.to_uppercase()] {
            assert!(!WorkerSecret::sent(bad).is_well_formed(), "{bad}");
        }
    }

    #[test]
    fn neither_is_shown_by_debug() {
        let secret = WorkerSecret::new([0xd7; 32]);
        assert_eq!(format!("{secret:?} {:?}", secret.digest()), "WorkerSecret SecretDigest");
    }
}
