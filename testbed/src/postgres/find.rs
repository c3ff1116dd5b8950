//! Which PostgreSQL servers this machine has.
//!
//! Only the standard library, and nothing of the modules around: `cargo xtask provision` compiles this very
//! file, so that it and the tests agree on what is found.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, io};

/// The environment variable that names a directory with the programs of PostgreSQL.
pub(crate) const NAMED_BY: &str = "WINDLASS_POSTGRES_BIN";

/// Older servers are passed over: their makers have given them up.
pub const OLDEST: u32 = 14;

/// What has to be in the directory. `psql` is how the tests speak to a server before there is a driver.
const PROGRAMS: [&str; 3] = ["initdb", "postgres", "psql"];

/// Where Debian and its relatives keep one directory for each major version.
const DEBIAN: &str = "/usr/lib/postgresql";

/// The programs of one PostgreSQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// The directory of `initdb`, `postgres` and `psql`.
    pub bin: PathBuf,
    /// As the server says it: `15.14`, `18beta1`.
    pub version: String,
}

impl Installation {
    /// The programs in this directory, if all are there and the server runs.
    pub fn at(bin: &Path) -> io::Result<Self> {
        let mut version = String::new();
        for name in PROGRAMS {
            let program = bin.join(name);
            let said = version_said(&program)
                .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", program.display())))?;
            if name == "postgres" {
                version = said;
            }
        }
        let found = Self { bin: bin.to_owned(), version };
        if found.major() < OLDEST {
            let message = format!("{}: version {} is older than {OLDEST}", bin.display(), found.version);
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        Ok(found)
    }

    /// `15` of `15.14`.
    #[must_use]
    pub fn major(&self) -> u32 {
        let digits: String = self.version.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or(0)
    }
}

/// Every PostgreSQL that is there, one of each major version: the one that the environment names, then what
/// is on the path, Debian's from the newest on, and what was provisioned into the given directory.
///
/// It is an error if the one that the environment names cannot be used: who names one wants no other.
pub(crate) fn find(provision: &Path) -> io::Result<Vec<Installation>> {
    let mut found: Vec<Installation> = Vec::new();
    if let Some(named) = env::var_os(NAMED_BY) {
        found
            .push(Installation::at(Path::new(&named)).map_err(|error| {
                io::Error::new(error.kind(), format!("{NAMED_BY} is of no use: {error}"))
            })?);
    }
    let others = on_path().into_iter().chain(debian()).chain(provisioned(provision));
    for installation in others.filter_map(|bin| Installation::at(&bin).ok()) {
        if found.iter().all(|it| it.major() != installation.major()) {
            found.push(installation);
        }
    }
    Ok(found)
}

/// What to do on a machine that has none.
#[must_use]
pub(crate) fn advice() -> String {
    format!(
        "no PostgreSQL {OLDEST} or newer was found (on PATH, in {DEBIAN}, in target/provision); run \
         `cargo xtask provision`, or install the Debian package `postgresql`, or let {NAMED_BY} name the directory \
         of `initdb`, `postgres` and `psql`"
    )
}

/// The answer to `--version` without the words around the number.
fn version_said(program: &Path) -> io::Result<String> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let number = said.split_once("(PostgreSQL) ").and_then(|(_, rest)| rest.split_whitespace().next());
    match number {
        Some(number) if output.status.success() => Ok(number.to_owned()),
        _ => Err(io::Error::other(format!("`--version` ended with {} and said {said:?}", output.status))),
    }
}

/// A name on the path is often a link to where the rest of the programs are, so the link is followed.
fn on_path() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .filter(|directory| directory.join("initdb").exists())
        .filter_map(|directory| fs::canonicalize(directory.join("postgres")).ok())
        .filter_map(|server| server.parent().map(Path::to_owned))
        .collect()
}

fn debian() -> Vec<PathBuf> {
    let mut versions = directories(Path::new(DEBIAN));
    // `9.6` is a directory there, too, and no number; it sorts last and is too old anyway.
    versions.sort_by_key(|path| {
        path.file_name().and_then(|it| it.to_str()).and_then(|it| it.parse::<u32>().ok()).unwrap_or(0)
    });
    versions.iter().rev().map(|version| version.join("bin")).collect()
}

/// A package may hold several versions, each with a `bin`: `postgres-*/PACKAGE/VERSION/bin`.
fn provisioned(provision: &Path) -> Vec<PathBuf> {
    let packages = directories(provision).into_iter().filter(|path| {
        path.file_name().and_then(|it| it.to_str()).is_some_and(|name| name.starts_with("postgres-"))
    });
    let mut bins: Vec<PathBuf> = packages
        .flat_map(|package| directories(&package))
        .flat_map(|inner| directories(&inner))
        .map(|version| version.join("bin"))
        .filter(|bin| bin.is_dir())
        .collect();
    bins.sort();
    bins
}

fn directories(within: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(within).into_iter().flatten().filter_map(Result::ok);
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}
