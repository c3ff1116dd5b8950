//! What went wrong, in one line that says what and what to do, and the exit code for it.
//!
//! 2: what was typed cannot be meant, and nothing was changed. 1: it was understood, and refused or failed.

use std::error::Error as _;
use std::ffi::OsString;
use std::fmt;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use windlass::{Error, Invalid, Rejected};

use crate::escape::plain;

/// What was typed cannot be meant. It must be the cause, not the context, of an error: only causes can be
/// told apart.
#[derive(Debug)]
pub(crate) struct Usage(String);

impl Usage {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// The user has stopped it.
#[derive(Debug)]
pub(crate) struct Interrupted(pub(crate) String);

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Interrupted {}

/// The exit code for a failure.
pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    if error.is::<Interrupted>() {
        return 130;
    }
    let is_usage = error.chain().any(|cause| {
        let refused = cause.downcast_ref::<Error>().and_then(Error::rejected);
        let refused = refused.or_else(|| cause.downcast_ref::<Rejected>());
        cause.is::<Usage>() || cause.is::<Invalid>() || matches!(refused, Some(Rejected::Invalid(_)))
    });
    if is_usage { 2 } else { 1 }
}

/// A failure in one line. A cause that the one above it quotes is not told twice.
pub(crate) fn line(error: &anyhow::Error) -> String {
    let (mut told, mut above) = (Vec::new(), String::new());
    for cause in error.chain().map(ToString::to_string) {
        if !above.ends_with(&cause) {
            told.push(cause.clone());
        }
        above = cause;
    }
    format!("windlass: {}", plain(&told.join(": ")))
}

/// What clap has to say about what was typed: in one line, or `None` if it is an answer (help, version).
pub(crate) fn usage_line(
    error: &clap::Error,
    program: &clap::Command,
    typed: impl Iterator<Item = OsString>,
) -> Option<String> {
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => return None,
        _ => {}
    }
    let said = match (error.get(ContextKind::InvalidArg), error.source()) {
        // The value's own refusal quotes it already.
        (Some(ContextValue::String(argument)), Some(source))
            if error.kind() == ErrorKind::ValueValidation =>
        {
            format!("{}: {source}", argument.split(' ').next().unwrap_or(argument))
        }
        _ => first_paragraphs(&error.to_string()),
    };
    let command = command_of(program, typed);
    Some(format!("windlass: {}; see `{command} --help`", plain(&said)))
}

/// What went wrong and clap's tips, on one line.
fn first_paragraphs(text: &str) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let paragraphs = text.split("\n\n").map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    let said =
        paragraphs.filter(|text| !text.starts_with("Usage:") && !text.starts_with("For more information"));
    said.collect::<Vec<_>>().join("; ")
}

/// The command that was meant, as far as it can be told: `windlass task list`.
fn command_of(program: &clap::Command, typed: impl Iterator<Item = OsString>) -> String {
    let (mut command, mut path) = (program, program.get_name().to_owned());
    for word in typed {
        if let Some(below) = word.to_str().and_then(|word| command.find_subcommand(word)) {
            command = below;
            path = format!("{path} {}", below.get_name());
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_meant_is_told_from_what_is_refused() {
        let invalid = || Invalid::number("limit", 0, "1 to 1000");
        for (error, code) in [
            (anyhow::Error::new(Usage::new("x")), 2),
            (anyhow::Error::new(invalid()).context("line 3"), 2),
            (anyhow::Error::new(Error::from(invalid())), 2),
            (anyhow::Error::new(Rejected::from(invalid())), 2),
            (anyhow::Error::new(Error::Closed), 1),
            (anyhow::Error::new(Rejected::NotLeader { term: 1 }).context("x"), 1),
            (anyhow::anyhow!("x"), 1),
        ] {
            assert_eq!(exit_code(&error), code, "{error:#}");
        }
        assert_eq!(line(&anyhow::anyhow!("a\nb\u{1b}").context("c")), "windlass: c: a\\nb\\u{1b}");
        let twice = line(&anyhow::Error::new(Error::from(invalid())));
        assert_eq!(twice, "windlass: invalid limit is 0; expected 1 to 1000");
    }
}
