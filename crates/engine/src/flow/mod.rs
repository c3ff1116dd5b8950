//! Workflow files: read, checked, and their expressions evaluated.
//!
//! [`read`] gives the definition that a YAML or JSON text describes, or what is wrong with it, each with
//! line, column and path. [`lint()`] says what only shows in expressions: CEL, in `if`, in `map.over`, and as
//! `${…}` in the texts of `input` and in the keys of lanes. [`Expressions`] are those of one step, compiled;
//! over a [`Scope`] they give its condition, its list and its payload.
//!
//! What is *not* here: no files are opened, nothing is started, and no expression can reach anything but the
//! JSON it is given.
//!
//! ```
//! use windlass::flow::{self, Expressions, Scope};
//! use windlass::{Json, WorkflowId};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let text = "
//! name: greeting
//! steps:
//!   look: { run: ./look.sh }
//!   greet:
//!     needs: look
//!     if: look.guests > 0
//!     task: greet
//!     input: { text: \"Hello ${input.name}, there are ${look.guests} of you\" }
//! ";
//! let document = flow::read(text).map_err(|problems| problems[0].to_string())?;
//! assert_eq!(document.lint(), []);
//!
//! let greet = Expressions::of(document.blueprint().step(1).ok_or("no step")?).map_err(|flaws| flaws[0].to_string())?;
//! let id: WorkflowId = "01890a5d-ac96-774b-bcce-b30000000000".parse()?;
//! let mut scope = Scope::new(id, "greeting", "1", &Json::payload(r#"{"name": "Ada"}"#)?)?;
//! scope.add("look", Some(&Json::result(r#"{"guests": 3}"#)?))?;
//! let greet = greet.bind(&scope);
//! assert_eq!(greet.condition()?, Some(true));
//! assert_eq!(greet.input()?.as_str(), r#"{"text":"Hello Ada, there are 3 of you"}"#);
//!
//! let problems = flow::read("name: x\nsteps:\n  list: {run: ls}\n  count: {run: wc, needs: [lst]}\n").unwrap_err();
//! let expected = "4:28 steps.count.needs[0]: there is no step \"lst\"; did you mean \"list\"?";
//! assert_eq!(problems[0].to_string(), expected);
//! # Ok(())
//! # }
//! ```

mod decode;
mod expression;
mod lane;
mod lint;
mod node;
mod problem;
mod read;
mod schema;
mod step;
mod template;

pub(crate) use lane::{KnownDefinitions, children, item_lanes, lint_lanes, refuse_lanes};
pub use lane::{evaluate_lanes, lint_together};
pub use lint::lint;
pub use problem::Problem;
pub use read::{Document, check, read};
pub use schema::{SCHEMA, check_input};
pub use step::{Bound, Expressions, Scope};
