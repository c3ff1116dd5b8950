//! The gate: what must hold before a change is in, cheapest first, and what is run besides before a larger
//! piece of work is done.
//!
//! [`STEPS`] is the one list of checks. A step of [`Level::Gate`] runs in every `cargo xtask test`; one of
//! [`Level::Full`] is slow or heavy and runs in `cargo xtask test --full` only.
//!
//! Every step that compiles asks for the same packages with the same features, because cargo shares what it
//! built only when the features of the dependencies agree. So dependencies are checked once, for clippy and
//! for docs, and compiled once, for tests and for examples. (A feature that only tests ask of a dependency is
//! the exception: docs are made without it, so that dependency is checked again.)

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use crate::suite::{self, Report};
use crate::{advisories, cargo, clients, examples, provision, show, tidy};

const CLIPPY: &[&str] =
    &["clippy", "--locked", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"];
const BUILD: &[&str] = &["test", "--locked", "--workspace", "--all-features", "--no-run"];
const TEST: &[&str] = &["test", "--locked", "--workspace", "--all-features"];
const DOC_TEST: &[&str] = &["test", "--locked", "--workspace", "--all-features", "--doc"];
const DOC: &[&str] = &["doc", "--locked", "--workspace", "--all-features", "--no-deps"];
const DENY: &[&str] = &["deny", "--locked", "check", "bans", "licenses", "sources"];
const RELEASE: &[&str] = &["build", "--release", "--locked", "-p", "windlass-server"];

/// How many tests are named at the end.
const SLOWEST: usize = 20;

/// When a step runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// In every `cargo xtask test`.
    Gate,
    /// Only with `--full`.
    Full,
}

struct Step {
    name: &'static str,
    level: Level,
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
    /// Tests that the gate runs, too, but longer: variables tell them how long.
    Longer {
        line: &'static [&'static str],
        variables: &'static [(&'static str, &'static str)],
    },
    Tidy,
    Provision,
    Tests,
    Examples,
    Advisories,
}

/// How a step that did not fail went; the text is for the summary.
enum Outcome {
    Passed(String),
    LeftOut(String),
}

const STEPS: &[Step] = &[
    Step {
        name: "format",
        level: Level::Gate,
        work: Work::Cargo { line: &["fmt", "--all", "--check"], variables: &[] },
        advice: "run `cargo xtask fmt`",
    },
    Step {
        name: "tidy",
        level: Level::Gate,
        work: Work::Tidy,
        advice: "each line above says what to do; `cargo xtask tidy` checks again in a second",
    },
    Step {
        name: "clippy",
        level: Level::Gate,
        work: Work::Cargo { line: CLIPPY, variables: &[] },
        advice: "do what clippy says, or allow the lint at the item with a reason",
    },
    Step {
        name: "provision",
        level: Level::Gate,
        work: Work::Provision,
        advice: "the line above says what to install; `cargo xtask provision` tries again",
    },
    Step {
        name: "build",
        level: Level::Gate,
        work: Work::Cargo { line: BUILD, variables: &[] },
        advice: "the compiler says above what is wrong",
    },
    Step {
        name: "tests",
        level: Level::Gate,
        work: Work::Tests,
        advice: "`cargo xtask test NAME` runs one test alone; a random test prints the seed that repeats it",
    },
    Step {
        name: "docs",
        level: Level::Gate,
        work: Work::Cargo { line: DOC, variables: &[("RUSTDOCFLAGS", "-Dwarnings")] },
        advice: "mend the links and code blocks that rustdoc names above",
    },
    Step {
        name: "examples",
        level: Level::Gate,
        work: Work::Examples,
        advice: "an example is documentation: it must run to its end without arguments and exit with 0",
    },
    Step {
        name: "licences",
        level: Level::Gate,
        work: Work::Optional { line: DENY, install: "cargo install --locked cargo-deny" },
        advice: "deny.toml says what may enter and why; choose another crate or argue for the entry there",
    },
    Step {
        name: "advisories",
        level: Level::Gate,
        work: Work::Advisories,
        advice: "update the crate that is named above, or list the advisory in deny.toml with the reason why it does not concern us",
    },
    Step {
        name: "a million tasks",
        level: Level::Full,
        work: Work::Longer {
            line: &["test", "--locked", "--workspace", "--all-features", "--test", "postgres_function_plans"],
            variables: &[("WINDLASS_FINISHED_TASKS", "1000000")],
        },
        advice: "a statement reads more rows as the store grows: the test names it and its plan",
    },
    Step {
        name: "requests",
        level: Level::Full,
        work: Work::Longer {
            line: &[
                "test",
                "--locked",
                "--workspace",
                "--all-features",
                "--test",
                "clients",
                "--",
                "contract::",
            ],
            variables: &[("WINDLASS_REQUESTS", "200")],
        },
        advice: "the request that was answered wrongly is printed above; make it a test of its own",
    },
    Step {
        name: "server kills",
        level: Level::Full,
        work: Work::Longer {
            line: &[
                "test",
                "--locked",
                "--workspace",
                "--all-features",
                "--test",
                "clients",
                "--",
                "kills::",
            ],
            variables: &[("WINDLASS_SERVER_KILLS", "100")],
        },
        advice: "what was lost or doubled is printed above; make it a test of its own",
    },
    Step {
        name: "release",
        level: Level::Full,
        work: Work::Cargo { line: RELEASE, variables: &[] },
        advice: "the program that users get does not build: the compiler says above what is wrong",
    },
    Step {
        name: "faults",
        level: Level::Full,
        work: Work::Longer {
            line: &[
                "test",
                "--release",
                "--locked",
                "-p",
                "windlass",
                "--all-features",
                "--no-fail-fast",
                "--test",
                "kill",
                "--test",
                "postgres_faults",
                "--test",
                "simulation",
            ],
            variables: &[
                ("WINDLASS_KILLS", "500"),
                ("WINDLASS_ZOMBIES", "100"),
                ("WINDLASS_RESTARTS", "100"),
                ("WINDLASS_ANSWERS", "1000"),
                ("WINDLASS_SEEDS", "20000"),
            ],
        },
        advice: "the seed that is printed above repeats the plan; make what was found a test with that seed",
    },
];

/// What the steps of a run have shown, for the end.
#[derive(Default)]
struct Summary {
    steps: Vec<(&'static str, String)>,
    tests: Report,
}

impl Summary {
    fn print(&self) {
        println!("\n{}", show::table(&self.steps));
        println!("{}", self.tests.slowest(SLOWEST));
    }
}

/// Runs every step of the level and those below it, in order, and stops at the first that fails. The last
/// line that is printed says how many tests passed and failed.
pub(crate) fn run_steps(root: &Path, level: Level) -> ExitCode {
    let begun = Instant::now();
    let mut summary = Summary::default();
    let steps: Vec<&Step> = STEPS.iter().filter(|step| step.level <= level).collect();
    let mut failure = None;
    for (number, step) in (1..).zip(&steps) {
        println!("[{number}/{}] {}: {}", steps.len(), step.name, step.describe());
        let step_begun = Instant::now();
        let outcome = step.run(root, &mut summary.tests);
        let took = show::duration(step_begun.elapsed());
        let line = match outcome {
            Ok(Outcome::Passed(remark)) if remark.is_empty() => took,
            Ok(Outcome::Passed(remark)) => format!("{took}  {remark}"),
            Ok(Outcome::LeftOut(why)) => format!("left out: {why}"),
            Err(message) => {
                summary.steps.push((step.name, format!("{took}  FAILED")));
                let advice = step.advice;
                failure =
                    Some(format!("{message}\n{} failed after {took}. What to do: {advice}.", step.name));
                break;
            }
        };
        println!("      {}: {line}", step.name);
        summary.steps.push((step.name, line));
    }
    summary.print();
    let took = show::duration(begun.elapsed());
    let code = match failure {
        Some(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
        None => {
            println!("all green in {took}");
            ExitCode::SUCCESS
        }
    };
    let sums = summary.tests.sums;
    println!("{} passed, {} failed", sums.passed, sums.failed);
    code
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
            Work::Cargo { line, variables } | Work::Longer { line, variables } => {
                let variables: String =
                    variables.iter().map(|(name, value)| format!("{name}={value} ")).collect();
                format!("{variables}cargo {}", line.join(" "))
            }
            Work::Optional { line, .. } => format!("cargo {}", line.join(" ")),
            Work::Tidy => "the rules of this repository".to_owned(),
            Work::Provision => "what the tests need and the machine may lack".to_owned(),
            Work::Tests => format!("the programs of cargo {}, side by side", TEST.join(" ")),
            Work::Examples => format!("every program in {}", examples::DIRECTORY),
            Work::Advisories => format!("cargo {}", advisories::CHECK.join(" ")),
        }
    }

    fn run(&self, root: &Path, report: &mut Report) -> Result<Outcome, String> {
        match &self.work {
            Work::Cargo { line, variables } => {
                cargo::run(root, line, variables).map(|()| Outcome::Passed(String::new()))
            }
            Work::Optional { line, install } => run_optional(root, line, install),
            Work::Longer { line, variables } => {
                suite::longer(root, line, variables, report).map(Outcome::Passed)
            }
            Work::Tidy => tidy::run(root).map(Outcome::Passed),
            Work::Provision => provision(root).map(Outcome::Passed),
            Work::Tests => suite::run(root, TEST, DOC_TEST, report).map(Outcome::Passed),
            Work::Examples => examples::run(root).map(Outcome::Passed),
            Work::Advisories => {
                let why = advisories::run(root)?;
                Ok(why.map_or_else(|| Outcome::Passed(String::new()), Outcome::LeftOut))
            }
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
        for step in STEPS {
            match &step.work {
                // Formatting resolves nothing, and cargo-fmt does not know the option.
                Work::Cargo { line: ["fmt", ..], .. } | Work::Tidy | Work::Provision => {}
                Work::Cargo { line, .. } | Work::Optional { line, .. } | Work::Longer { line, .. } => {
                    assert!(line.contains(&"--locked"), "{}", step.name);
                }
                Work::Tests => assert!(TEST.contains(&"--locked") && DOC_TEST.contains(&"--locked")),
                Work::Examples => assert!(examples::BUILD.contains(&"--locked")),
                Work::Advisories => assert!(advisories::CHECK.contains(&"--locked")),
            }
        }
    }

    #[test]
    fn every_step_of_the_gate_that_compiles_asks_for_the_same_features() {
        for line in [CLIPPY, BUILD, TEST, DOC_TEST, DOC, examples::BUILD] {
            assert!(line.contains(&"--workspace") && line.contains(&"--all-features"), "{line:?}");
        }
        for step in STEPS.iter().filter(|step| step.level == Level::Full) {
            if let Work::Longer { line, .. } = &step.work {
                let shares = line.contains(&"--workspace") || line.contains(&"--release");
                assert!(shares && line.contains(&"--all-features"), "{}", step.name);
            }
        }
    }

    #[test]
    fn the_header_of_a_step_can_be_pasted_into_a_shell() {
        let docs = STEPS.iter().find(|step| step.name == "docs").unwrap();
        assert_eq!(
            docs.describe(),
            "RUSTDOCFLAGS=-Dwarnings cargo doc --locked --workspace --all-features --no-deps"
        );
    }

    #[test]
    fn the_gate_comes_first_and_each_step_has_one_name() {
        assert!(STEPS.is_sorted_by_key(|step| step.level), "the full level adds to the gate");
        let mut names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), STEPS.len());
        let at = |name: &str| STEPS.iter().position(|step| step.name == name).unwrap();
        assert!(at("provision") < at("tests") && at("build") < at("tests") && at("tests") < at("examples"));
    }

    #[test]
    fn the_full_level_runs_longer_and_nothing_else_does() {
        for step in STEPS {
            let is_longer = matches!(&step.work, Work::Longer { variables, .. } if !variables.is_empty());
            let is_release = matches!(&step.work, Work::Cargo { line, .. } if line.contains(&"--release"));
            assert_eq!(is_longer || is_release, step.level == Level::Full, "{}", step.name);
        }
    }

    /// A variable that no test reads would make a longer run that is none.
    #[test]
    fn what_makes_a_run_longer_is_read_by_a_test() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
        let mut sources = String::new();
        let mut directories =
            vec![crates.join("engine/tests"), crates.join("server/tests"), crates.join("store/tests")];
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    directories.push(path);
                } else if path.extension().is_some_and(|it| it == "rs") {
                    sources += &std::fs::read_to_string(path).unwrap();
                }
            }
        }
        for step in STEPS {
            if let Work::Longer { variables, .. } = &step.work {
                for (name, value) in *variables {
                    assert!(sources.contains(&format!("\"{name}\"")), "{name}");
                    assert!(value.parse::<u64>().is_ok_and(|number| number > 0), "{name}={value}");
                }
            }
        }
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
