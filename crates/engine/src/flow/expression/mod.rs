//! Expressions: CEL, compiled once, evaluated over JSON. Nothing else here knows the library that does it.
//!
//! The library has no meter, so one is built into every expression when it is compiled: whatever is read,
//! copied or looped over passes through a function that counts it, and a hostile expression ends with an
//! error when [`stage::FUEL`] is used up. That needs no thread and no clock, so the same expression over the
//! same data always ends the same way. What could exhaust the stack is bounded in the text, before the
//! parser, which recurses, sees it.

mod rewrite;
mod stage;

use std::collections::BTreeSet;
use std::panic::catch_unwind;
use std::sync::{Arc, LazyLock};

use cel::Env;
use cel::common::ast::IdedExpr;
use windlass_core::limits;

use super::problem::quote;
use rewrite::Rewrite;
pub(super) use stage::{STEP_FUEL, Stage};

/// Brackets within brackets.
const BRACKETS: usize = 33;

/// Levels of recursion in the parser. Half of what fits on 2 MiB without optimisation.
const DEPTH: usize = 250;

/// Levels that a member of a chain such as `a.b[c]` costs.
const MEMBER: usize = 6;

/// Words for types, which are no variables.
pub(super) const TYPES: [&str; 10] =
    ["bool", "bytes", "double", "dyn", "int", "list", "map", "null_type", "string", "uint"];

/// The library's functions and macros. They are the same for all, and not cheap to gather.
static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

/// Why a text is no expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Refused {
    pub(super) problem: String,
    pub(super) advice: String,
}

impl Refused {
    pub(super) fn new(problem: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { problem: problem.into(), advice: advice.into() }
    }
}

/// What an expression refers to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct References {
    /// Names used by themselves: steps, and words such as `input`.
    pub(super) names: BTreeSet<String>,
    /// Steps used as `steps.name` or `steps["name"]`.
    pub(super) steps: BTreeSet<String>,
    /// Whether `steps` is used in another way, so that any step may be meant.
    pub(super) any_step: bool,
}

impl References {
    pub(super) fn has(&self, name: &str) -> bool {
        self.names.contains(name) || self.steps.contains(name)
    }

    pub(super) fn extend(&mut self, other: &Self) {
        self.names.extend(other.names.iter().cloned());
        self.steps.extend(other.steps.iter().cloned());
        self.any_step |= other.any_step;
    }
}

/// A compiled expression.
#[derive(Clone, Debug)]
pub(super) struct Expression {
    source: String,
    tree: IdedExpr,
    references: References,
}

impl Expression {
    pub(super) fn compile(source: &str) -> Result<Self, Refused> {
        check_text(source)?;
        // Parsers made by that generator are known to panic on odd texts.
        let parsed = catch_unwind(|| ENV.parser().parse(source));
        let Ok(parsed) = parsed else {
            return Err(unreadable(source, "it is not understood"));
        };
        let mut tree = parsed.map_err(|errors| match errors.errors.first() {
            Some(error) if error.msg.contains("<EOF>") => unreadable(source, "it ends too early"),
            Some(error) => {
                let said = error.msg.split(" expecting ").next().unwrap_or_default();
                let said = said.trim_start_matches("Syntax error: ").replace('\n', " ");
                let end = said.floor_char_boundary(120);
                unreadable(source, &format!("{} at character {}", &said[..end], error.pos.1.max(0) + 1))
            }
            None => unreadable(source, "it is not understood"),
        })?;
        let references = Rewrite::new(source).run(&mut tree)?;
        Ok(Self { source: source.into(), references, tree })
    }

    pub(super) fn references(&self) -> &References {
        &self.references
    }
}

fn unreadable(source: &str, why: &str) -> Refused {
    let advice = "write an expression such as extract.errors > 3";
    Refused::new(format!("{} cannot be read: {why}", quote(source.trim())), advice)
}

/// Bounds what the parser will have to do.
fn check_text(source: &str) -> Result<(), Refused> {
    if source.trim().is_empty() {
        return Err(Refused::new("the expression is empty", "write one such as extract.errors > 3"));
    }
    if source.len() > limits::EXPRESSION_BYTES {
        let advice = format!("at most {} are possible", limits::EXPRESSION_BYTES);
        return Err(Refused::new(format!("the expression has {} bytes", source.len()), advice));
    }
    let mut levels = vec![Level::default()];
    let (mut open, mut at) = (0, 0);
    let bytes = source.as_bytes();
    while at < bytes.len() {
        let level = levels.last_mut().map_or(Level::default(), |level| *level);
        let next = match bytes[at] {
            b'"' | b'\'' => {
                at = super::template::after_string(source, at);
                continue;
            }
            b'(' | b'[' | b'{' => {
                open += level.depth() + MEMBER;
                levels.push(Level::default());
                Level::default()
            }
            b')' | b']' | b'}' if levels.len() > 1 => {
                levels.pop();
                let outer = levels.last().copied().unwrap_or_default();
                open -= outer.depth() + MEMBER;
                // Whatever was in the brackets, to the outside it is one more member.
                Level { members: outer.members + 1, ..outer }
            }
            b'.' => Level { members: level.members + 1, ..level },
            b',' => Level::default(),
            byte if b"+-*/%<>=!&|?".contains(&byte) => {
                // `&&`, `==` and the like are one.
                at += usize::from(bytes.get(at + 1).is_some_and(|next| b"=&|".contains(next)));
                Level { operators: level.operators + 1, members: 0 }
            }
            // The word `in`, or a word that begins so.
            b'i' if source[at..].starts_with("in") => Level { operators: level.operators + 1, ..level },
            _ => level,
        };
        if let Some(level) = levels.last_mut() {
            *level = next;
        }
        if levels.len() > BRACKETS || open + next.depth() > DEPTH {
            let advice = "do it in a step, or in several expressions";
            return Err(Refused::new(format!("{} is too long or nested too deeply", quote(source)), advice));
        }
        at += 1;
    }
    Ok(())
}

/// How deep the parser has to go between two brackets: each operator, and each member of a chain such as
/// `a.b[c]`, is within the next.
#[derive(Clone, Copy, Default)]
struct Level {
    operators: usize,
    members: usize,
}

impl Level {
    fn depth(self) -> usize {
        self.operators + self.members * MEMBER
    }
}
