//! Values that the SQL stores keep as text, in the same form.

use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use windlass_core::{Line, Name, Notes, Progress, Timestamp};

/// A list or a policy as JSON; nothing if it is the default.
pub(crate) fn to_json<T: Serialize + Default + PartialEq>(value: &T) -> Option<String> {
    (*value != T::default()).then(|| serde_json::to_string(value).unwrap_or_default())
}

/// What [`to_json`] wrote.
pub(crate) fn from_json<T: DeserializeOwned + Default>(text: Option<&str>) -> serde_json::Result<T> {
    text.map_or_else(|| Ok(T::default()), serde_json::from_str)
}

pub(crate) fn names_to_json(names: &[Name]) -> String {
    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    serde_json::to_string(&names).unwrap_or_default()
}

pub(crate) fn names_from_json(text: Option<&str>) -> serde_json::Result<Vec<Name>> {
    let names: Vec<String> = from_json(text)?;
    Ok(names.iter().map(|name| Name::stored(name)).collect())
}

/// Words that have no spaces, as one text.
pub(crate) fn words_to_text<T: ToString>(words: impl IntoIterator<Item = T>) -> String {
    words.into_iter().map(|word| word.to_string()).collect::<Vec<_>>().join(" ")
}

/// What [`words_to_text`] wrote.
pub(crate) fn words_from_text<T: FromStr, C: FromIterator<T>>(text: &str) -> Result<C, T::Err> {
    text.split_whitespace().map(str::parse).collect()
}

/// [`Progress`] as it is stored.
#[derive(PartialEq, Serialize, Deserialize)]
struct ProgressText {
    done: u64,
    total: Option<u64>,
    note: Option<String>,
}

pub(crate) fn progress_to_json(notes: &Notes) -> Option<String> {
    let progress = notes.progress.clone();
    to_json(&progress.map(|Progress { done, total, note }| ProgressText { done, total, note }))
}

pub(crate) fn progress_from_json(text: Option<&str>) -> serde_json::Result<Option<Progress>> {
    let progress: Option<ProgressText> = from_json(text)?;
    Ok(progress.map(|ProgressText { done, total, note }| Progress { done, total, note }))
}

pub(crate) fn lines_to_json(notes: &Notes) -> String {
    let lines: Vec<(i64, &str)> = notes.lines.iter().map(|line| (line.at.as_micros(), &*line.text)).collect();
    serde_json::to_string(&lines).unwrap_or_default()
}

pub(crate) fn lines_from_json(text: Option<&str>) -> serde_json::Result<Vec<Line>> {
    let lines: Vec<(i64, String)> = from_json(text)?;
    Ok(lines.into_iter().map(|(at, text)| Line { at: Timestamp::from_micros(at), text }).collect())
}
