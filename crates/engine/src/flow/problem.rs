//! What is wrong with a workflow file, in words for its author.

use std::fmt;

use windlass_core::Flaw;

/// Something in a workflow file that cannot be, or that is likely a mistake.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Line in the file, from 1. None if the file is not at hand.
    pub line: Option<usize>,
    /// Column in the line, in characters, from 1.
    pub column: Option<usize>,
    /// Where in the definition, such as `steps.publish.needs[1]`; empty if the text could not be read so far.
    pub path: String,
    /// What is wrong there.
    pub problem: String,
    /// What would be right; may be empty.
    pub advice: String,
    /// Whether the file can be used all the same.
    pub is_warning: bool,
}

impl Problem {
    pub(super) fn new(
        path: impl Into<String>,
        problem: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        let (path, problem, advice) = (path.into(), problem.into(), advice.into());
        Self { line: None, column: None, path, problem, advice, is_warning: false }
    }

    pub(super) fn warning(
        path: impl Into<String>,
        problem: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { is_warning: true, ..Self::new(path, problem, advice) }
    }

    pub(super) fn at(mut self, place: Place) -> Self {
        self.line = Some(place.line as usize);
        self.column = Some(place.column as usize);
        self
    }
}

impl From<Flaw> for Problem {
    fn from(flaw: Flaw) -> Self {
        Self::new(flaw.path, flaw.problem, flaw.advice)
    }
}

/// `12:5 steps.publish.needs[1]: there is no step "regons"; did you mean "regions"?`
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(f, "{line}:{column} ")?;
        }
        if self.is_warning {
            f.write_str("warning: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.problem)?;
        if !self.advice.is_empty() {
            write!(f, "; {}", self.advice)?;
        }
        Ok(())
    }
}

/// A place in the text of a file, both from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) line: u32,
    pub(super) column: u32,
}

/// So many problems are told; whoever has more starts with these.
pub(super) const MOST: usize = 20;

/// `did you mean …?` for the known word that is most like `wanted`, if one is like it at all. For a message,
/// so only the first thousand are looked at.
pub(super) fn did_you_mean<'a>(wanted: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let close = wanted.chars().count() / 3 + 1;
    let near = known.take(1_000).map(|word| (distance(wanted, word), word));
    let (_, word) = near.filter(|(far, _)| *far <= close).min()?;
    Some(format!("did you mean {word:?}?"))
}

/// How many letters have to be changed, put in or left out.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.bytes().take(128).enumerate() {
        let mut corner = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.bytes().enumerate() {
            let change = corner + usize::from(a != b);
            corner = row[j + 1];
            row[j + 1] = change.min(corner + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}

/// A text in quotes, cut to a length that fits a line.
pub(super) fn quote(text: &str) -> String {
    let end = text.floor_char_boundary(80);
    let ellipsis = if end < text.len() { "…" } else { "" };
    format!("{:?}{ellipsis}", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_one_line() {
        let problem =
            Problem::new("steps.a.needs[1]", "there is no step \"regons\"", "did you mean \"regions\"?");
        let place = Place { line: 12, column: 5 };
        assert_eq!(
            problem.at(place).to_string(),
            "12:5 steps.a.needs[1]: there is no step \"regons\"; did you mean \"regions\"?"
        );
        let bare = Problem::warning("", "it is odd", "");
        assert_eq!(bare.to_string(), "warning: it is odd");
    }

    #[test]
    fn the_nearest_word_is_offered_if_it_is_near() {
        let known = ["needs", "retry", "timeout"];
        let offer = |wanted| did_you_mean(wanted, known.into_iter());
        assert_eq!(offer("need").as_deref(), Some("did you mean \"needs\"?"));
        assert_eq!(offer("timeuot").as_deref(), Some("did you mean \"timeout\"?"));
        assert_eq!(offer("schedule"), None);
    }
}
