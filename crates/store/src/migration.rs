//! Numbered migrations: what every SQL store keeps to.
//!
//! They go forward only. Each is applied once, recorded with a checksum of its text, and never edited
//! afterwards: a changed one is refused, and so is a database that a newer version has migrated.

use windlass_core::Timestamp;

use crate::error::{Error, Result};

/// One step of the schema of a database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Migration {
    /// Its number; the first is 1.
    pub version: i64,
    /// What it adds.
    pub name: String,
    /// When it was applied to the database; absent if opening it would apply it.
    pub applied_at: Option<Timestamp>,
}

/// The migrations of a store, in order, each with its name and text; the first is number 1.
pub(crate) type Known = [(&'static str, &'static str)];

/// Checks those that a database has had, each with its checksum. One that this program does not know, or
/// knows otherwise, is refused.
pub(crate) fn check(applied: Vec<(Migration, String)>, known: &Known) -> Result<Vec<Migration>> {
    if let Some((Migration { version, .. }, _)) = applied.get(known.len()..).and_then(<[_]>::last) {
        let known = known.len();
        return Err(Error::Unusable(format!(
            "its schema is version {version} and this program knows {known}; use a newer windlass"
        )));
    }
    for ((Migration { version, name, .. }, sum), (_, sql)) in applied.iter().zip(known) {
        if *sum != checksum(sql) {
            let what = format!("migration {version} ({name}) is not the one that was applied to it");
            return Err(Error::Unusable(what));
        }
    }
    Ok(applied.into_iter().map(|(migration, _)| migration).collect())
}

/// Those that a database with `applied` ones has yet to get, with their numbers.
pub(crate) fn missing(
    applied: usize,
    known: &'static Known,
) -> impl Iterator<Item = (i64, &'static str, &'static str)> {
    (1..).zip(known).skip(applied).map(|(version, (name, sql))| (version, *name, *sql))
}

/// All of them: those that were applied, then those that were not.
pub(crate) fn all(applied: Vec<Migration>, known: &'static Known) -> Vec<Migration> {
    let missing = missing(applied.len(), known);
    let missing: Vec<_> = missing
        .map(|(version, name, _)| Migration { version, name: name.into(), applied_at: None })
        .collect();
    applied.into_iter().chain(missing).collect()
}

/// FNV-1a: enough to notice that a text was edited.
pub(crate) fn checksum(sql: &str) -> String {
    let hash = sql.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}
