//! The secret of an access token: made here, shown once, and kept only as a digest.

use std::fmt::Write;

use anyhow::{Result, anyhow};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use windlass::NewSecret;

/// What every token begins with, so that it is recognised wherever it turns up.
const PREFIX: &str = "wl_";

/// Digits of the secret: 256 bits.
const DIGITS: usize = 64;

/// A new token: the public part it is found by, the digest to keep, and the text to show once.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(crate) id: String,
    pub(crate) digest: [u8; 32],
    pub(crate) text: String,
}

impl Fresh {
    pub(crate) fn make() -> Result<Self> {
        let mut random = [0; 36];
        getrandom::fill(&mut random).map_err(|error| anyhow!("no random numbers: {error}"))?;
        let digits = random.iter().fold(String::new(), |mut text, byte| {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
            text
        });
        let (id, secret) = digits.split_at(8);
        Ok(Self { id: id.into(), digest: digest(secret), text: format!("{PREFIX}{id}_{secret}") })
    }
}

impl Fresh {
    /// What the store keeps of it.
    pub(crate) fn secret(&self) -> NewSecret {
        NewSecret { id: self.id.clone(), digest: self.digest }
    }
}

fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// A token as it was sent: its public part and the digest of its secret.
#[derive(Debug)]
pub(crate) struct Sent<'a> {
    pub(crate) id: &'a str,
    digest: [u8; 32],
}

impl<'a> Sent<'a> {
    /// Reads a token; `None` if it cannot be one.
    pub(crate) fn read(text: &'a str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        (secret.len() == DIGITS).then(|| Self { id, digest: digest(secret) })
    }

    /// Whether it has that digest. Takes the same time wherever they differ.
    pub(crate) fn is(&self, digest: &[u8; 32]) -> bool {
        self.digest.ct_eq(digest).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use windlass::access::Scope;
    use windlass::{AccessToken, Name, Timestamp};

    fn token(fresh: &Fresh) -> AccessToken {
        AccessToken {
            name: Name::stored("ci"),
            id: fresh.id.clone(),
            digest: fresh.digest,
            scopes: BTreeSet::from([Scope::Read]),
            queues: Vec::new(),
            namespaces: Vec::new(),
            groups: Vec::new(),
            created_at: Timestamp::MIN,
            created_by: None,
            expires_at: None,
            previous: Vec::new(),
            last_used_at: None,
        }
    }

    #[test]
    fn a_token_is_recognised_and_no_other() {
        let (fresh, other) = (Fresh::make().unwrap(), Fresh::make().unwrap());
        token(&fresh).check().unwrap();
        let sent = Sent::read(&fresh.text).unwrap();
        assert!(sent.id == fresh.id && sent.is(&fresh.digest) && !sent.is(&other.digest));
        let forged = format!("{PREFIX}{}_{}", fresh.id, "0".repeat(DIGITS));
        assert!(!Sent::read(&forged).unwrap().is(&fresh.digest));
        for bad in [
            "",
            "wl_",
            "wl_x",
            "x_0123abcd_00",
            &fresh.text[1..],
            &fresh.text[..60],
            &format!("{}0", fresh.text),
        ] {
            assert!(Sent::read(bad).is_none(), "{bad}");
        }
        assert!(!format!("{:?}", token(&fresh)).contains("digest: ["));
    }
}
