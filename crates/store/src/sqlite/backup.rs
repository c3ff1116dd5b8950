//! Copies of a database that is in use, and proof that a copy is whole.
//!
//! SQLite's online backup reads one snapshot: writers go on, and the copy is the store as it was when copying
//! began. What was acknowledged before that is in it.

use std::ops::ControlFlow;
use std::path::Path;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::failure::{failure, of_file};
use super::migrate;
use crate::error::{Error, Result};

/// Pages of one step: 8 MiB. Between two steps the caller hears how far it is, and may stop it.
const STEP: i32 = 1024;

/// Problems that are named; a damaged file can have any number of them.
const NAMED: usize = 5;

/// How much of a database has been copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Copied {
    /// Bytes that are copied.
    pub bytes: u64,
    /// Bytes in all.
    pub total: u64,
}

/// What a database holds that was found to be whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Contents {
    /// The size of the file.
    pub bytes: u64,
    /// How many tasks are in it.
    pub tasks: u64,
    /// The number of its last migration.
    pub schema: i64,
}

/// Copies the database `from`, which may be in use, to `to`, which must be missing or empty. Blocks;
/// `progress` hears how far it is and may stop it. The copy is neither verified nor flushed to the disk: see
/// [`verify`].
pub fn copy(from: &Path, to: &Path, progress: &mut dyn FnMut(Copied) -> ControlFlow<()>) -> Result<()> {
    let existing = OpenFlags::default() - OpenFlags::SQLITE_OPEN_CREATE;
    let source = migrate::connect(from, existing)?;
    if migrate::is_fresh(&source).map_err(|error| of_file(from, error))? {
        return Err(Error::Unusable(format!("{} is empty; there is nothing to copy", from.display())));
    }
    let mut target = migrate::connect(to, OpenFlags::default())?;
    // Nobody reads a copy before it is complete, and one that is not is thrown away.
    target.pragma_update(None, "journal_mode", "off").map_err(failure)?;
    target.pragma_update(None, "synchronous", "off").map_err(failure)?;
    // One snapshot for all steps. Without it, every commit of another connection would start the copy anew.
    let snapshot = source.unchecked_transaction().map_err(failure)?;
    snapshot.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).map_err(failure)?;
    let page: u32 = snapshot.pragma_query_value(None, "page_size", |row| row.get(0)).map_err(failure)?;
    let backup = Backup::new(&source, &mut target).map_err(failure)?;
    loop {
        let step = backup.step(STEP).map_err(|error| of_file(to, failure(error)))?;
        let [all, left] = [backup.progress().pagecount, backup.progress().remaining]
            .map(|pages| u64::try_from(pages).unwrap_or(0) * u64::from(page));
        let stopped = progress(Copied { bytes: all.saturating_sub(left), total: all }).is_break();
        match step {
            StepResult::Done => return Ok(()),
            _ if stopped => return Err(Error::Unavailable("the copy was stopped before its end".into())),
            StepResult::More => {}
            // The connections of a copy are its own, so this passes.
            _ => std::thread::yield_now(),
        }
    }
}

/// Whether the file at `path` is a whole database of Windlass: its structure, its foreign keys, its schema.
/// Says what is in it. Nobody else may use the file meanwhile.
pub fn verify(path: &Path) -> Result<Contents> {
    check(path).map_err(|error| of_file(path, error))
}

fn check(path: &Path) -> Result<Contents> {
    let damaged = |what: &str| Error::Unusable(format!("it is damaged: {what}"));
    let connection = migrate::connect(path, OpenFlags::default() - OpenFlags::SQLITE_OPEN_CREATE)?;
    if migrate::is_fresh(&connection)? {
        return Err(Error::Unusable("it is empty, and not a store".into()));
    }
    let problems = integrity(&connection)?;
    if !problems.is_empty() {
        return Err(damaged(&problems.join("; ")));
    }
    let schema = migrate::applied(&connection)?.last().map_or(0, |migration| migration.version);
    let tasks: i64 =
        connection.query_row("SELECT count(*) FROM tasks", [], |row| row.get(0)).map_err(failure)?;
    connection.close().map_err(|(_, error)| failure(error))?;
    let bytes = std::fs::metadata(path).map_err(|error| damaged(&error.to_string()))?.len();
    Ok(Contents { bytes, tasks: u64::try_from(tasks).unwrap_or(0), schema })
}

/// What SQLite finds wrong with the structure of a database, its indexes and its foreign keys; not all of it
/// if there is much.
pub(super) fn integrity(connection: &Connection) -> Result<Vec<String>> {
    let texts = |sql: &str| -> rusqlite::Result<Vec<String>> {
        connection.prepare(sql)?.query_map([], |row| row.get(0))?.take(NAMED + 1).collect()
    };
    let mut found = texts("PRAGMA integrity_check(6)").map_err(failure)?;
    found.retain(|line| line != "ok");
    let orphans = "SELECT 'a row of ' || \"table\" || ' names one of ' || parent || ' that is not there' FROM \
        pragma_foreign_key_check";
    found.extend(texts(orphans).map_err(failure)?);
    if found.len() > NAMED {
        found.truncate(NAMED);
        found.push("and more".into());
    }
    Ok(found)
}
