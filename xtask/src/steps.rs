//! The gate: what must hold before a change is in, cheapest first.
//!
//! Every step that compiles asks for the same packages with the same features, because cargo shares what it built
//! only when the features of the dependencies agree. So dependencies are checked once, for clippy and for docs, and
//! compiled once, for tests and for examples. (A feature that only tests ask of a dependency is the exception: docs are
//! made without it, so that dependency is checked again.)

use std::path::Path;
use std::time::Instant;

use crate::{cargo, clients, examples, provision, show, tidy};

const CLIPPY: &[&str] =
    &["clippy", "--locked", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"];
const TEST: &[&str] = &["test", "--locked", "--workspace", "--all-features"];
const DOC: &[&str] = &["doc", "--locked", "--workspace", "--all-features", "--no-deps"];
const DENY: &[&str] = &["deny", "--locked", "check", "bans", "licenses", "sources"];

struct Step {
    name: &'static str,
    work: Work,
    /// What to do when the step fails.
    advice: &'static str,
}

enum Work {
    Cargo {
        line: &'static [&'static str],
        variables: &'static [(&'static str, &'static str)],
    },
    /// A cargo command that does not come with Rust: left out, aloud, where it is not installed.
    Optional {
        line: &'static [&'static str],
        install: &'static str,
    },
    Tidy,
    Provision,
    Examples,
}

/// How a step that did not fail went; the text is for the summary.
enum Outcome {
    Passed(String),
    LeftOut(String),
}

const GATE: &[Step] = &[
    Step {
        name: "format",
        work: Work::Cargo { line: &["fmt", "--all", "--check"], variables: &[] },
        advice: "run `cargo xtask fmt`",
    },
    Step {
        name: "tidy",
        work: Work::Tidy,
        advice: "each line above says what to do; `cargo xtask tidy` checks again in a second",
    },
    Step {
        name: "clippy",
        work: Work::Cargo { line: CLIPPY, variables: &[] },
        advice: "do what clippy says, or allow the lint at the item with a reason",
    },
    Step {
        name: "provision",
        work: Work::Provision,
        advice: "the line above says what to install; `cargo xtask provision` tries again",
    },
    Step {
        name: "tests",
        work: Work::Cargo { line: TEST, variables: &[] },
        advice: "`cargo xtask test NAME` runs one test alone; a random test prints the seed that repeats it",
    },
    Step {
        name: "docs",
        work: Work::Cargo { line: DOC, variables: &[("RUSTDOCFLAGS", "-Dwarnings")] },
        advice: "mend the links and code blocks that rustdoc names above",
    },
    Step {
        name: "examples",
        work: Work::Examples,
        advice: "an example is documentation: it must run to its end without arguments and exit with 0",
    },
    Step {
        name: "licences",
        work: Work::Optional { line: DENY, install: "cargo install --locked cargo-deny" },
        advice: "deny.toml says what may enter and why; choose another crate or argue for the entry there",
    },
];

/// Runs every step in order and stops at the first that fails.
pub(crate) fn run_gate(root: &Path) -> Result<(), String> {
    let begun = Instant::now();
    let mut summary = Vec::new();
    for (number, step) in (1..).zip(GATE) {
        println!("[{number}/{}] {}: {}", GATE.len(), step.name, step.describe());
        let step_begun = Instant::now();
        let outcome = step.run(root);
        let took = show::duration(step_begun.elapsed());
        let line = match outcome {
            Ok(Outcome::Passed(remark)) if remark.is_empty() => took,
            Ok(Outcome::Passed(remark)) => format!("{took}  {remark}"),
            Ok(Outcome::LeftOut(why)) => format!("left out: {why}"),
            Err(message) => {
                return Err(format!(
                    "\n{message}\n{} failed after {took}. What to do: {}.",
                    step.name, step.advice
                ));
            }
        };
        println!("      {}: {line}", step.name);
        summary.push((step.name, line));
    }
    println!("\n{}all green in {}", show::table(&summary), show::duration(begun.elapsed()));
    Ok(())
}

/// Gets all that tests need.
pub(crate) fn provision(root: &Path) -> Result<String, String> {
    let servers = provision::run(root, false)?;
    Ok(format!("{servers}; {}", clients::run(root)?))
}

/// Runs only the tests whose names contain one of the filters.
///
/// One run for each filter, because a test program without Rust's own harness takes a single one.
pub(crate) fn run_tests(root: &Path, words: &[String]) -> Result<(), String> {
    test_lines(words).iter().try_for_each(|line| cargo::run(root, line, &[]))
}

fn test_lines(words: &[String]) -> Vec<Vec<&str>> {
    let (options, filters): (Vec<&str>, Vec<&str>) =
        words.iter().map(String::as_str).filter(|word| *word != "--").partition(|word| word.starts_with('-'));
    let with_options = [TEST, &["--"], &options].concat();
    if filters.is_empty() {
        return vec![with_options];
    }
    filters.iter().map(|filter| [with_options.as_slice(), &[*filter]].concat()).collect()
}

impl Step {
    fn describe(&self) -> String {
        match &self.work {
            Work::Cargo { line, variables } => {
                let variables: String =
                    variables.iter().map(|(name, value)| format!("{name}={value} ")).collect();
                format!("{variables}cargo {}", line.join(" "))
            }
            Work::Optional { line, .. } => format!("cargo {}", line.join(" ")),
            Work::Tidy => "the rules of this repository".to_owned(),
            Work::Provision => "what the tests need and the machine may lack".to_owned(),
            Work::Examples => format!("every program in {}", examples::DIRECTORY),
        }
    }

    fn run(&self, root: &Path) -> Result<Outcome, String> {
        match &self.work {
            Work::Cargo { line, variables } => {
                cargo::run(root, line, variables).map(|()| Outcome::Passed(String::new()))
            }
            Work::Optional { line, install } => run_optional(root, line, install),
            Work::Tidy => tidy::run(root).map(Outcome::Passed),
            Work::Provision => provision(root).map(Outcome::Passed),
            Work::Examples => examples::run(root).map(Outcome::Passed),
        }
    }
}

fn run_optional(root: &Path, line: &[&str], install: &str) -> Result<Outcome, String> {
    let [name, ..] = line else { return Err("a step of the gate names no command".to_owned()) };
    if cargo::has_command(root, name) {
        cargo::run(root, line, &[]).map(|()| Outcome::Passed(String::new()))
    } else {
        Ok(Outcome::LeftOut(format!("cargo-{name} is not installed; `{install}` gets it")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn every_step_that_resolves_dependencies_is_locked() {
        for step in GATE {
            match &step.work {
                // Formatting resolves nothing, and cargo-fmt does not know the option.
                Work::Cargo { line: ["fmt", ..], .. } | Work::Tidy | Work::Provision => {}
                Work::Cargo { line, .. } | Work::Optional { line, .. } => {
                    assert!(line.contains(&"--locked"), "{}", step.name);
                }
                Work::Examples => assert!(examples::BUILD.contains(&"--locked")),
            }
        }
    }

    #[test]
    fn every_step_that_compiles_asks_for_the_same_features() {
        for line in [CLIPPY, TEST, DOC, examples::BUILD] {
            assert!(line.contains(&"--workspace") && line.contains(&"--all-features"), "{line:?}");
        }
    }

    #[test]
    fn the_header_of_a_step_can_be_pasted_into_a_shell() {
        let docs = GATE.iter().find(|step| step.name == "docs").unwrap();
        assert_eq!(
            docs.describe(),
            "RUSTDOCFLAGS=-Dwarnings cargo doc --locked --workspace --all-features --no-deps"
        );
    }

    #[test]
    fn each_filter_is_a_run_of_its_own_and_options_go_to_all() {
        let words = words("claim -- --nocapture lease");
        let lines = test_lines(&words);
        assert_eq!(lines.len(), 2);
        assert!(lines[0].ends_with(&["--", "--nocapture", "claim"]));
        assert!(lines[1].ends_with(&["--", "--nocapture", "lease"]));
    }

    #[test]
    fn options_alone_run_every_test() {
        let words = words("--nocapture");
        assert_eq!(test_lines(&words), [[TEST, &["--", "--nocapture"]].concat()]);
    }
}
