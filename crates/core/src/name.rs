//! Names and texts as they come from outside: what is accepted, and what is stored.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::limits;
use crate::rejected::Invalid;

/// A namespace, queue or kind: 1 to 128 of `A–Z a–z 0–9 . _ : -`. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// Checks `text`. `field` is the word the error uses for it.
    pub fn new(field: &'static str, text: &str) -> Result<Self, Invalid> {
        let legal = |b: u8| b.is_ascii_alphanumeric() || b"._:-".contains(&b);
        if text.is_empty() || text.len() > limits::NAME_LENGTH || !text.bytes().all(legal) {
            return Err(Invalid::new(field, text, "1 to 128 characters from A-Z a-z 0-9 . _ : -"));
        }
        Ok(Self(text.into()))
    }

    /// A kind, such as `email:send`.
    pub fn kind(text: &str) -> Result<Self, Invalid> {
        Self::new("kind", text)
    }

    /// A queue, such as `emails`.
    pub fn queue(text: &str) -> Result<Self, Invalid> {
        Self::new("queue", text)
    }

    /// A namespace, such as a tenant's name.
    pub fn namespace(text: &str) -> Result<Self, Invalid> {
        Self::new("namespace", text)
    }

    /// A name that a store reads back from its own rows, where it was checked before it was written.
    #[must_use]
    pub fn stored(text: &str) -> Self {
        Self(text.into())
    }
}

/// The namespace and queue `default`.
impl Default for Name {
    fn default() -> Self {
        Self("default".into())
    }
}

impl Deref for Name {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

/// So that maps can be asked with a plain text.
impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// Checks a free text that becomes part of an index key: not empty, bounded, no NUL
/// (which PostgreSQL cannot store). Any other character is kept exactly.
pub(crate) fn check_key(field: &'static str, text: &str, bytes: usize) -> Result<(), Invalid> {
    if text.is_empty() || text.len() > bytes || text.contains('\0') {
        return Err(Invalid::new(field, text, format!("1 to {bytes} bytes of UTF-8 without NUL")));
    }
    Ok(())
}

/// A free text about something that happened (an error, a note, an actor) as it is stored:
/// at most [`limits::TEXT_BYTES`], cut at a character, NUL replaced. It is never refused,
/// because refusing it would lose what happened.
#[must_use]
pub fn stored_text(text: &str) -> String {
    const MARK: &str = " … (cut)";
    let clean = text.replace('\0', "\u{fffd}");
    if clean.len() <= limits::TEXT_BYTES {
        return clean;
    }
    let end = clean.floor_char_boundary(limits::TEXT_BYTES - MARK.len());
    format!("{}{MARK}", &clean[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for good in ["a", "email:send", "A.b_c-9", &"x".repeat(128)] {
            assert_eq!(&*Name::kind(good).unwrap(), good);
        }
        for bad in ["", "a b", "a'b", "a\"", "a\0", "\u{202e}abc", "é", &"x".repeat(129)] {
            let error = Name::queue(bad).unwrap_err();
            assert_eq!(error.field, "queue");
            assert!(error.to_string().contains("1 to 128"), "{error}");
        }
    }

    #[test]
    fn texts_are_cut_at_a_character() {
        assert_eq!(stored_text("a\0b"), "a\u{fffd}b");
        let long = stored_text(&"ü".repeat(limits::TEXT_BYTES));
        assert!(long.len() <= limits::TEXT_BYTES && long.ends_with("ü … (cut)"));
    }
}
