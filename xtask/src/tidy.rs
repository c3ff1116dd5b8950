//! The rules of this repository that no compiler knows.
//!
//! A rule is a function from the files of the repository to the places that break it. It is here because
//! someone would otherwise have to remember it in review. Each has a test that shows it catching a bad
//! sample; a rule that is not worth that is dropped.
//!
//! Rules look at text. They are there to catch what happens by accident, not what is done by stealth.

mod crates;
mod layout;
mod lines;
mod manifest;
mod prose;
mod ratchets;
mod requirements;
mod tree;
mod words;

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
    ("requirements", requirements::requirements),
    ("type-names", ratchets::type_names),
    ("plain-words", ratchets::plain_words),
    ("comment-width", ratchets::comment_width),
    ("nested-results", ratchets::nested_results),
    ("long-super", ratchets::long_super),
];

/// How many places a rule shows whose count has grown.
const PROBLEMS_SHOWN: usize = 20;

/// Lowers the recorded counts to what there is, and says what they are.
pub(crate) fn write(root: &Path) -> Result<String, String> {
    ratchets::write(root, &Tree::of_repository(root)?)
}

/// Checks the repository. Returns a remark for the summary, or every problem, one a line.
pub(crate) fn run(root: &Path) -> Result<String, String> {
    let tree = Tree::of_repository(root)?;
    let problems = check(&tree);
    if problems.is_empty() {
        let obeyed = format!("{} obey {} rules", show::count(tree.files.len(), "file"), RULES.len());
        let fallen: String = ratchets::fallen(&tree).iter().map(|line| format!("\n  {line}")).collect();
        return Ok(obeyed + &fallen);
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
