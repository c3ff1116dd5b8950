//! What a command is given besides words: JSON on the command line, in a file, or on standard input.

use std::convert::Infallible;
use std::fs::File;
use std::io::{Read, stdin};
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Result;
use windlass::{Invalid, Json, limits};

use crate::failure::Usage;

/// Where it comes from: `JSON`, `@FILE` or `-`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// It is what was typed.
    Typed(String),
    /// It is in this file.
    File(PathBuf),
    /// It comes from standard input.
    Stdin,
}

impl FromStr for Source {
    type Err = Infallible;
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text.strip_prefix('@') {
            Some(path) => Self::File(path.into()),
            None if text == "-" => Self::Stdin,
            None => Self::Typed(text.into()),
        })
    }
}

impl Source {
    /// Reads a JSON text; `field` is the word that errors use for it.
    pub(crate) fn json(&self, field: &'static str) -> Result<Json> {
        let most = u64::try_from(limits::JSON_BYTES).unwrap_or(u64::MAX) + 1;
        let mut bytes = Vec::new();
        let (from, read) = match self {
            Self::Typed(text) => return Ok(Json::new(field, text)?),
            Self::File(path) => {
                let read = File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes));
                (path.display().to_string(), read)
            }
            Self::Stdin => ("standard input".into(), stdin().lock().take(most).read_to_end(&mut bytes)),
        };
        read.map_err(|error| Usage::new(format!("{field} from {from}: {error}")))?;
        if bytes.len() > limits::JSON_BYTES {
            let expected = format!("at most {} bytes of JSON", limits::JSON_BYTES);
            return Err(Invalid::new(field, "longer", expected).into());
        }
        let text = String::from_utf8(bytes).map_err(|_| Usage::new(format!("{field} is not UTF-8 text")))?;
        Ok(Json::new(field, text.trim())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_says_where_it_comes_from() {
        assert_eq!("@a b.json".parse(), Ok(Source::File("a b.json".into())));
        assert_eq!("-".parse(), Ok(Source::Stdin));
        assert_eq!("-1".parse(), Ok(Source::Typed("-1".into())));
        assert_eq!(Source::Typed(" {} ".into()).json("payload").unwrap().as_str(), " {} ");
        assert!(Source::Typed("{".into()).json("payload").is_err());
        let missing = Source::File("no such file".into()).json("payload").unwrap_err();
        assert_eq!(crate::failure::exit_code(&missing), 2, "{missing:#}");
    }
}
