//! Files with definitions, and what is wrong with them.

use std::convert::Infallible;
use std::fmt;
use std::io::{Read, stdin};
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Result;
use serde::Serialize;
use windlass::flow::{self, Problem};
use windlass::{Definition, limits};

use super::unreadable;
use crate::escape::plain;
use crate::failure::Usage;

/// A file, or standard input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum File {
    Named(PathBuf),
    Stdin,
}

impl FromStr for File {
    type Err = Infallible;
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(if text == "-" { Self::Stdin } else { Self::Named(text.into()) })
    }
}

impl fmt::Display for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(path) => fmt::Display::fmt(&path.display(), f),
            Self::Stdin => f.write_str("-"),
        }
    }
}

/// Standard input can be read once.
pub(super) fn stdin_once(files: &[File]) -> Result<(), Usage> {
    match files.iter().filter(|file| **file == File::Stdin).count() {
        0 | 1 => Ok(()),
        _ => Err(Usage::new("- is named twice; standard input can be read once")),
    }
}

impl File {
    pub(super) fn read(&self) -> Result<String, Usage> {
        let most = u64::try_from(limits::DEFINITION_BYTES).unwrap_or(u64::MAX) + 1;
        let mut bytes = Vec::new();
        let read = match self {
            Self::Named(path) => {
                std::fs::File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes))
            }
            Self::Stdin => stdin().lock().take(most).read_to_end(&mut bytes),
        };
        read.map_err(|error| unreadable(self, error))?;
        String::from_utf8(bytes).map_err(|_| unreadable(self, "it is not UTF-8 text"))
    }

    /// The definition in it, and what is likely a mistake.
    pub(crate) fn check(&self) -> Result<(Definition, Vec<Problem>), Usage> {
        match flow::check(&self.read()?) {
            Ok((document, warnings)) => Ok((document.definition().clone(), warnings)),
            Err(problems) => {
                let errors: Vec<_> = problems.iter().filter(|problem| !problem.is_warning).collect();
                let first = errors.first().map(|first| problem_line(self, first)).unwrap_or_default();
                let more = match errors.len() {
                    0 | 1 => String::new(),
                    errors => format!(" (and {} more: see `windlass definition lint {self}`)", errors - 1),
                };
                Err(Usage::new(format!("{first}{more}")))
            }
        }
    }
}

/// `FILE:LINE:COLUMN: path: problem; advice`, as compilers write it.
pub(super) fn problem_line(file: &File, problem: &Problem) -> String {
    let place = problem.line.zip(problem.column).map(|(line, column)| format!("{line}:{column}:"));
    let bare = Problem { line: None, column: None, ..problem.clone() };
    plain(&format!("{file}:{} {bare}", place.unwrap_or_default())).into_owned()
}

/// What is wrong with one file.
#[derive(Serialize, Debug)]
pub(super) struct LintedJson {
    file: String,
    problems: Vec<ProblemJson>,
}

#[derive(Serialize, Debug)]
struct ProblemJson {
    line: Option<usize>,
    column: Option<usize>,
    severity: &'static str,
    path: String,
    problem: String,
    advice: String,
}

impl LintedJson {
    pub(super) fn of(file: &File, problems: &[Problem]) -> Self {
        let json = |problem: &Problem| ProblemJson {
            line: problem.line,
            column: problem.column,
            severity: if problem.is_warning { "warning" } else { "error" },
            path: problem.path.clone(),
            problem: problem.problem.clone(),
            advice: problem.advice.clone(),
        };
        Self { file: file.to_string(), problems: problems.iter().map(json).collect() }
    }
}
