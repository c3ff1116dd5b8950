//! Tells the words of a file from its code.
//!
//! Rules about words look at comments and string literals and leave names alone. So Rust is split here into
//! code and prose. This is not a parser: it knows comments, strings, raw strings and character literals.

use super::tree::File;

/// A line of a file, with its comments and string literals apart from the rest.
#[derive(Default)]
pub(super) struct Line {
    pub(super) code: String,
    pub(super) prose: String,
}

/// The lines that hold prose, numbered from one. Files of other kinds have none.
pub(super) fn prose(file: &File) -> Vec<(usize, String)> {
    let whole = || file.lines().map(|(number, line)| (number, line.to_owned())).collect();
    match file.extension() {
        "rs" => (1..).zip(split(&file.text)).map(|(number, line)| (number, line.prose)).collect(),
        "sql" => file
            .lines()
            .filter_map(|(number, line)| Some((number, line.split_once("--")?.1.to_owned())))
            .collect(),
        "md" | "py" | "ts" => whole(),
        "json" if file.name() == "openapi.json" => whole(),
        _ => Vec::new(),
    }
}

enum Inside {
    Code,
    LineComment,
    /// How many `/*` are open.
    BlockComment(usize),
    Text,
    /// Ends with a quote and so many `#`.
    RawText(usize),
}

/// The lines of a Rust file.
pub(super) fn split(text: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut line = Line::default();
    let mut inside = Inside::Code;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if c == '\n' {
            lines.push(std::mem::take(&mut line));
            if matches!(inside, Inside::LineComment) {
                inside = Inside::Code;
            }
            rest = &rest[1..];
            continue;
        }
        let (length, next) = match inside {
            Inside::Code => step_in_code(rest, &line.code),
            Inside::LineComment => (c.len_utf8(), None),
            Inside::BlockComment(open) if rest.starts_with("*/") => {
                let inside = if open == 1 { Inside::Code } else { Inside::BlockComment(open - 1) };
                (2, Some(inside))
            }
            Inside::BlockComment(open) if rest.starts_with("/*") => (2, Some(Inside::BlockComment(open + 1))),
            Inside::BlockComment(_) => (c.len_utf8(), None),
            Inside::Text if c == '\\' => (length_of_two(rest), None),
            Inside::Text if c == '"' => (1, Some(Inside::Code)),
            Inside::Text => (c.len_utf8(), None),
            Inside::RawText(hashes) if c == '"' && rest[1..].starts_with(&"#".repeat(hashes)) => {
                (1 + hashes, Some(Inside::Code))
            }
            Inside::RawText(_) => (c.len_utf8(), None),
        };
        let (taken, left) = rest.split_at(length);
        let is_code = matches!(inside, Inside::Code);
        if is_code {
            line.code.push_str(taken);
        } else {
            line.prose.push_str(taken);
        }
        if is_code && next.is_some() {
            // Words on both sides of some code stay apart.
            line.prose.push(' ');
        }
        inside = next.unwrap_or(inside);
        rest = left;
    }
    lines.push(line);
    lines
}

/// How much of the rest is one piece of code, and what begins after it.
fn step_in_code(rest: &str, before: &str) -> (usize, Option<Inside>) {
    let first = rest.chars().next().map_or(0, char::len_utf8);
    if rest.starts_with("//") {
        return (2, Some(Inside::LineComment));
    }
    if rest.starts_with("/*") {
        return (2, Some(Inside::BlockComment(1)));
    }
    if rest.starts_with('"') {
        return (1, Some(Inside::Text));
    }
    if rest.starts_with('\'') {
        return (length_of_quote(rest), None);
    }
    if rest.starts_with('r') && !before.ends_with(|c: char| c != 'b' && (c.is_alphanumeric() || c == '_')) {
        let hashes = rest[1..].len() - rest[1..].trim_start_matches('#').len();
        if rest[1 + hashes..].starts_with('"') {
            return (2 + hashes, Some(Inside::RawText(hashes)));
        }
    }
    (first, None)
}

/// A character literal as a whole; of a lifetime, only its quote.
fn length_of_quote(rest: &str) -> usize {
    let mut characters = rest.char_indices().skip(1);
    match (characters.next(), characters.next()) {
        (Some((_, '\\')), Some((at, escaped))) => {
            let after = at + escaped.len_utf8();
            rest[after..].find('\'').map_or(1, |end| after + end + 1)
        }
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 1,
    }
}

/// A backslash and what it escapes. The end of a line stays, to be counted.
fn length_of_two(rest: &str) -> usize {
    rest[1..].chars().next().filter(|c| *c != '\n').map_or(1, |c| 1 + c.len_utf8())
}
