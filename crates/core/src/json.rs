//! Payloads and results: JSON, kept as the very text that was sent.

use std::fmt;
use std::sync::Arc;

use serde::de::IgnoredAny;

use crate::limits;
use crate::rejected::Invalid;

/// A JSON text, checked for syntax, size and depth, and otherwise untouched: numbers no float can
/// hold, repeated keys, lone surrogates and `\u0000` stay exactly as they were written.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(Arc<str>);

/// What is expected of a text that is too large.
pub(crate) fn too_large() -> String {
    format!("at most {} bytes of JSON", limits::JSON_BYTES)
}

impl Json {
    /// Checks `text`. `field` is the word the error uses for it.
    pub fn new(field: &'static str, text: &str) -> Result<Self, Invalid> {
        if text.len() > limits::JSON_BYTES {
            let got = format!("{} bytes", text.len());
            return Err(Invalid::new(field, &got, too_large()));
        }
        serde_json::from_str::<IgnoredAny>(text)
            .map_err(|error| Invalid::new(field, text, format!("JSON ({error})")))?;
        let depth = depth(text);
        if depth > limits::JSON_DEPTH {
            let got = format!("{depth} levels");
            return Err(Invalid::new(
                field,
                &got,
                format!("JSON nested at most {} levels deep", limits::JSON_DEPTH),
            ));
        }
        Ok(Self(text.into()))
    }

    /// A payload.
    pub fn payload(text: &str) -> Result<Self, Invalid> {
        Self::new("payload", text)
    }

    /// A result.
    pub fn result(text: &str) -> Result<Self, Invalid> {
        Self::new("result", text)
    }

    /// A text that a store reads back from its own rows.
    #[must_use]
    pub fn stored(text: &str) -> Self {
        Self(text.into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// `null`, which is what an absent payload means.
impl Default for Json {
    fn default() -> Self {
        Self("null".into())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The deepest nesting of a text already known to be JSON. Counts brackets outside strings; no recursion.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_string => depth -= 1,
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_text() {
        for text in [
            "null",
            " {\"a\" : 1} ",
            "1e400",
            "-0",
            r#"{"a":1,"a":2}"#,
            r#""\u0000""#,
            r#""\ud800""#,
            r#""[[[\"[[""#,
        ] {
            assert_eq!(Json::payload(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn refuses_what_is_not_json() {
        for text in ["", "{", "nul", "01", "{a:1}", "[1,]", "\"\u{1}\"", "1 2"] {
            let error = Json::payload(text).unwrap_err();
            assert_eq!(error.field, "payload", "{text}");
        }
    }

    #[test]
    fn bounds_size_and_depth() {
        let nested = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(Json::result(&nested(limits::JSON_DEPTH)).is_ok());
        assert!(Json::result(&nested(limits::JSON_DEPTH + 1)).is_err());
        assert!(Json::result(&nested(100_000)).is_err());
        let sized = |n: usize| format!("\"{}\"", "x".repeat(n - 2));
        assert!(Json::result(&sized(limits::JSON_BYTES)).is_ok());
        assert!(Json::result(&sized(limits::JSON_BYTES + 1)).is_err());
    }
}
