//! The rules of this repository that no compiler knows.
//!
//! A rule is a function from the files of the repository to the places that break it. It is here because someone
//! would otherwise have to remember it in review. Each has a test that shows it catching a bad sample; a rule that
//! is not worth that is dropped.
//!
//! Rules look at text. They are there to catch what happens by accident, not what is done by stealth.

mod crates;
mod layout;
mod lines;
mod manifest;
mod tree;

use std::fmt;
use std::path::Path;

use crate::show;
use tree::Tree;

/// A place that breaks a rule.
struct Problem {
    path: String,
    /// Counted from one.
    line: usize,
    rule: &'static str,
    /// What is wrong there and what to do about it.
    message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, rule, message } = self;
        write!(f, "{path}:{line}: {rule}: {message}")
    }
}

/// What a rule found: line and message, by path. The name of the rule is added by [`check`].
type Found = Vec<(String, usize, String)>;

type Rule = fn(&Tree) -> Found;

const RULES: &[(&str, Rule)] = &[
    ("core-dependencies", crates::core_dependencies),
    ("core-is-pure", lines::core_is_pure),
    ("arrows", crates::arrows),
    ("lints", crates::lints),
    ("crate-docs", crates::crate_docs),
    ("names", layout::names),
    ("length", layout::length),
    ("migrations", layout::migrations),
    ("sql-is-used", layout::sql_is_used),
    ("whitespace", lines::whitespace),
    ("unfinished", lines::unfinished),
    ("sleep", lines::sleep),
    ("machine-paths", lines::machine_paths),
    ("hosts", lines::hosts),
];

/// Checks the repository. Returns a remark for the summary, or every problem, one a line.
pub(crate) fn run(root: &Path) -> Result<String, String> {
    let tree = Tree::of_repository(root)?;
    let problems = check(&tree);
    if problems.is_empty() {
        return Ok(format!("{} obey {} rules", show::count(tree.files.len(), "file"), RULES.len()));
    }
    let lines: String = problems.iter().map(|problem| format!("{problem}\n")).collect();
    Err(format!("{lines}{} found by tidy", show::count(problems.len(), "problem")))
}

fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (rule, find) in RULES {
        for (path, line, message) in find(tree) {
            problems.push(Problem { path, line, rule, message });
        }
    }
    problems.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    problems
}

#[cfg(test)]
mod tests;
