//! The commands of this repository, run as `cargo xtask <command>`.
//!
//! `test` is the whole gate: what passes here passes everywhere, because continuous integration runs the same
//! command. [`steps`] says what the gate consists of, [`suite`] runs the test programs, [`tidy`] holds the
//! rules of this repository that no compiler knows, [`provision`] gets the servers that tests need and
//! [`clients`] what those of the clients need, [`examples`] runs the example programs, and [`faults`] makes
//! the tests that break things on purpose run longer.
//!
//! What this crate does *not* do: it has no dependencies, it is not shipped, and it contains no test of
//! Windlass itself. Those live beside the code that they test.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing to a terminal is what this program is for"
)]

mod advisories;
mod cargo;
mod clients;
mod examples;
mod faults;
mod provision;
mod record;
mod schedule;
mod show;
mod steps;
mod suite;
mod tidy;
mod times;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

use steps::Level;

const HELP: &str = "\
usage: cargo xtask <command>

  test [--full]    The whole gate: format, tidy, clippy, tests, docs, examples, licences, advisories.
                   --full adds what is slow or heavy, and takes about 90 minutes.
  test FILTER…     Only the tests whose name contains one of these. Words that start with
                   a dash go to the test programs as they are (--nocapture).
  tidy [--write]   Check the rules of this repository that no compiler knows. With --write, lower
                   the counts in xtask/ratchets.txt to what there is.
  fmt              Format all Rust code.
  provision [--all]
                   Get what the tests need: a PostgreSQL, fetched with pip if the machine has none or in
                   any case (--all), Python packages, the TypeScript client. `test` does this by itself.
  bench [ARGS…]    Measure against hand-written statements, in release mode (see `bench --help`).
  faults [--kills N] [--zombies N] [--restarts N] [--answers N] [--seeds N]
                   Run the tests that kill and stop processes, kill PostgreSQL and lose its
                   answers, and the simulation, in release mode: so many of each, or for hours.
                   Those not named run as in `test`.
  help             Print this.
";

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let command = arguments.next();
    let rest: Vec<String> = arguments.collect();
    let root = root();
    let ended = match (command.as_deref(), rest.as_slice()) {
        (Some("test"), []) => return steps::run_steps(&root, Level::Gate),
        (Some("test"), [full]) if full == "--full" => return steps::run_steps(&root, Level::Full),
        (Some("test"), filters) => steps::provision(&root).and_then(|_| steps::run_tests(&root, filters)),
        // What cargo starts instead of a test program; see `record`.
        (Some("record"), [list, program, ..]) => record::record(list, program),
        (Some("tidy"), []) => tidy::run(&root).map(|looked_at| println!("{looked_at}")),
        (Some("tidy"), [write]) if write == "--write" => {
            tidy::write(&root).map(|numbers| println!("{numbers}"))
        }
        (Some("fmt"), []) => cargo::run(&root, &["fmt", "--all"], &[]),
        (Some("provision"), []) => steps::provision(&root).map(|found| println!("{found}")),
        (Some("provision"), [all]) if all == "--all" => {
            provision::run(&root, true).map(|found| println!("{found}"))
        }
        (Some("provision"), _) => return misused("`provision` takes no arguments but --all"),
        (Some("bench"), arguments) => bench(&root, arguments),
        (Some("faults"), words) => match faults::variables(words) {
            Ok(variables) => faults::run(&root, &variables),
            Err(message) => return misused(&message),
        },
        (None | Some("help" | "--help" | "-h"), _) => {
            print!("{HELP}");
            Ok(())
        }
        (Some("tidy"), _) => return misused("`tidy` takes no arguments but --write"),
        (Some("fmt"), _) => return misused("`fmt` takes no arguments"),
        (Some(unknown), _) => {
            return misused(&format!(
                "no command `{unknown}`; there are test, tidy, fmt, provision, bench, faults and help"
            ));
        }
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// One line and exit code 2, as for any command line that was not understood.
fn misused(what: &str) -> ExitCode {
    eprintln!("xtask: {what}");
    ExitCode::from(2)
}

/// Measures the release build, since nobody runs the other one.
fn bench(root: &Path, arguments: &[String]) -> Result<(), String> {
    cargo::run(root, &["build", "--release", "--locked", "-p", "windlass-server"], &[])?;
    let mut line = vec!["run", "--release", "--locked", "-p", "windlass-bench", "--"];
    line.extend(arguments.iter().map(String::as_str));
    cargo::run(root, &line, &[])
}

/// The directory of the workspace. Cargo tells where this package is when it runs it; the path known at build
/// time serves when the program is started by hand.
fn root() -> PathBuf {
    let package = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let root = package.join("..");
    fs::canonicalize(&root).unwrap_or(root)
}
