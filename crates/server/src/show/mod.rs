//! Values as people and programs read them, by noun. The JSON is the outside contract, not the row.

pub(crate) mod attempt;
pub(crate) mod definition;
pub(crate) mod explanation;
pub(crate) mod schedule;
pub(crate) mod stats;
pub(crate) mod step;
pub(crate) mod task;
pub(crate) mod worker;
pub(crate) mod workflow;

use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};
use windlass::{Json, Timestamp};

use crate::escape;

/// What a command has to say, in both forms.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) text: String,
    /// One JSON value.
    pub(crate) json: String,
    /// What else went wrong, though there is an answer; the program then ends with `code`.
    pub(crate) failure: Option<String>,
    /// The exit code for a failure; 1 unless it is set.
    pub(crate) code: u8,
    /// Whether it has been printed already.
    pub(crate) is_shown: bool,
}

impl Answer {
    /// `json` is anything that can be written as JSON, such as what `json!` makes.
    pub(crate) fn new(text: impl Into<String>, json: &impl Serialize) -> Self {
        // Nothing that is shown has keys that are not strings, which is all that can fail.
        let json = serde_json::to_string(json).unwrap_or_else(|error| format!("{:?}", error.to_string()));
        Self { text: text.into(), json, failure: None, code: 1, is_shown: false }
    }

    /// An answer that is not good news.
    pub(crate) fn but(self, failure: Option<String>) -> Self {
        Self { failure, ..self }
    }

    /// An answer that has been printed.
    pub(crate) fn shown(self) -> Self {
        Self { is_shown: true, ..self }
    }

    /// What the program ends with if that is so.
    pub(crate) fn with_code(self, code: u8) -> Self {
        Self { code, ..self }
    }
}

/// A moment for programs.
pub(crate) fn time(at: Option<Timestamp>) -> Option<String> {
    at.map(|at| at.to_string())
}

/// A length of time in seconds, whole ones as whole numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seconds(pub(crate) Duration);

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.subsec_nanos() {
            0 => serializer.serialize_u64(self.0.as_secs()),
            _ => serializer.serialize_f64(self.0.as_secs_f64()),
        }
    }
}

impl PartialSchema for Seconds {
    fn schema() -> RefOr<Schema> {
        f64::schema()
    }
}

impl ToSchema for Seconds {}

/// A payload or result for programs: the very text that was sent, whatever a parser would make of its
/// numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verbatim<'a>(pub(crate) &'a Json);

impl Serialize for Verbatim<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match serde_json::from_str::<&RawValue>(self.0.as_str()) {
            Ok(raw) => raw.serialize(serializer),
            Err(_) => serializer.serialize_str(self.0.as_str()),
        }
    }
}

impl PartialSchema for Verbatim<'_> {
    fn schema() -> RefOr<Schema> {
        serde_json::Value::schema()
    }
}

impl ToSchema for Verbatim<'_> {}

/// Characters of a payload or result that a page shows.
const JSON_SHOWN: usize = 2_000;

/// A payload or result for people.
pub(crate) fn json_text(json: &Json) -> String {
    let text = escape::json(json.as_str());
    match text.char_indices().nth(JSON_SHOWN) {
        Some((end, _)) => format!("{}… ({} bytes; --json shows all)", &text[..end], json.as_str().len()),
        None => text,
    }
}

/// `name  value` lines, values aligned; those without a value are left out.
#[derive(Debug, Default)]
pub(crate) struct Page(Vec<(&'static str, String)>);

impl Page {
    /// Adds a line. The value is shown as it is.
    pub(crate) fn line(&mut self, name: &'static str, value: impl Into<Option<String>>) {
        self.0.extend(value.into().map(|value| (name, value)));
    }

    /// Adds a line with a value from outside.
    pub(crate) fn text(&mut self, name: &'static str, value: Option<&str>) {
        self.line(name, value.map(|value| escape::plain(value).into_owned()));
    }

    pub(crate) fn render(&self) -> String {
        let width = self.0.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        self.0.iter().map(|(name, value)| format!("{name:width$}  {value}\n")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_shown_as_they_were_sent() {
        let shown = |text: &str| Answer::new("", &Verbatim(&Json::stored(text))).json;
        for text in ["1e400", "123456789012345678901234567890", r#"{"a": 1, "a": 2}"#, r#""\ud800""#] {
            assert_eq!(shown(text), text);
        }
        assert_eq!(shown("not JSON"), r#""not JSON""#);
        assert!(
            json_text(&Json::stored(&format!("{:?}", "x".repeat(3_000))))
                .ends_with("(3002 bytes; --json shows all)")
        );
    }

    #[test]
    fn whole_seconds_are_whole_numbers() {
        let shown = |millis| Answer::new("", &Seconds(Duration::from_millis(millis))).json;
        assert_eq!((shown(5_000), shown(250)), ("5".into(), "0.25".into()));
    }
}
