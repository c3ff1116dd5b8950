//! Opening a database file: its settings, and its numbered migrations.
//!
//! Migrations go forward only. Each is applied once, recorded with a checksum of its text, and never edited afterwards:
//! a changed one is refused, and so is a database that a newer version has migrated.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, Row, TransactionBehavior, params};
use windlass_core::Timestamp;

use super::failure::{failure, is_busy};
use super::{Durability, row};
use crate::error::{Error, Result};

/// `WIND`: tells a Windlass database from any other SQLite file.
const APPLICATION_ID: i32 = 0x5749_4e44;

/// Twice SQLite's default: a level less in every tree of a million tasks, which matters more than the larger log of a small
/// commit.
const PAGE_SIZE: u32 = 8192;

/// How long one statement waits for another process.
const PATIENCE: Duration = Duration::from_secs(5);

/// All migrations, in order; the first is number 1.
const MIGRATIONS: &[(&str, &str)] = &[
    ("tasks", include_str!("migrations/001_tasks.sql")),
    ("documents", include_str!("migrations/002_documents.sql")),
    ("notes_and_schedules", include_str!("migrations/003_notes_and_schedules.sql")),
];

/// The connection that writes.
pub(super) fn writer(path: &Path, durability: Durability) -> Result<Connection> {
    let connection = connect(path, OpenFlags::default())?;
    // In one snapshot, because another process may be making the file just now; and before anything is changed.
    if is_fresh(&*connection.unchecked_transaction().map_err(failure)?)? {
        connection.pragma_update(None, "page_size", PAGE_SIZE).map_err(failure)?;
    }
    switch_to_wal(&connection)?;
    connection.pragma_update(None, "synchronous", durability.pragma()).map_err(failure)?;
    connection.pragma_update(None, "foreign_keys", true).map_err(failure)?;
    // What a savepoint would restore is kept in memory instead of a temporary file.
    connection.pragma_update(None, "temp_store", "memory").map_err(failure)?;
    // A checkpoint every 16 MiB: each one costs two more fsyncs.
    connection.pragma_update(None, "wal_autocheckpoint", 2048).map_err(failure)?;
    connection.pragma_update(None, "cache_size", -32 * 1024).map_err(failure)?;
    Ok(connection)
}

/// WAL lets readers go on while the writer writes. It is a property of the file; setting it again costs nothing. The first time it
/// turns a read lock into a write lock, for which SQLite never waits: so wait by taking the write lock, and try again.
fn switch_to_wal(connection: &Connection) -> Result<()> {
    let since = Instant::now();
    loop {
        match connection.pragma_update(None, "journal_mode", "wal") {
            Ok(()) => return Ok(()),
            Err(error) if is_busy(&error) && since.elapsed() < PATIENCE => {
                connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK").map_err(failure)?;
            }
            Err(error) => return Err(failure(error)),
        }
    }
}

/// Whether nothing is in the file yet. A file of another program is refused.
fn is_fresh(connection: &Connection) -> Result<bool> {
    let application: i32 =
        connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(failure)?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(failure)?;
    match (application, tables) {
        (APPLICATION_ID, _) => Ok(false),
        (0, 0) => Ok(true),
        _ => Err(Error::Unusable("it is a SQLite database of another program; choose another file".into())),
    }
}

/// Lets the file grow to `bytes` and no further.
pub(super) fn limit(connection: &Connection, bytes: u64) -> Result<()> {
    let page: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0)).map_err(failure)?;
    let pages = i64::try_from(bytes).unwrap_or(i64::MAX) / page;
    connection.pragma_update(None, "max_page_count", pages).map_err(failure)
}

/// One step of the schema of a database file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Migration {
    /// Its number; the first is 1.
    pub version: i64,
    /// What it adds.
    pub name: String,
    /// When it was applied to the file; absent if opening the file would apply it.
    pub applied_at: Option<Timestamp>,
}

/// The migrations that the file at `path` has had and those it has yet to get, in order. Only looks: nothing is applied, and a
/// file that is not there is not made.
pub fn migrations(path: impl AsRef<Path>) -> Result<Vec<Migration>> {
    let path = std::path::absolute(path.as_ref())
        .map_err(|error| Error::Unusable(format!("{:?} is not a path: {error}", path.as_ref())))?;
    let mut migrations = Vec::new();
    if path.exists() {
        let connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        if !is_fresh(&connection)? {
            migrations = applied(&connection)?;
        }
    }
    let missing = (1..).zip(MIGRATIONS).skip(migrations.len());
    migrations.extend(missing.map(|(version, (name, _))| Migration {
        version,
        name: (*name).into(),
        applied_at: None,
    }));
    Ok(migrations)
}

/// A connection that only reads.
pub(super) fn reader(path: &Path) -> Result<Connection> {
    let connection = connect(path, OpenFlags::default())?;
    connection.pragma_update(None, "query_only", true).map_err(failure)?;
    connection.pragma_update(None, "cache_size", -4 * 1024).map_err(failure)?;
    Ok(connection)
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection> {
    let unusable = |error| Error::Unusable(format!("{} cannot be opened: {error}", path.display()));
    let connection = Connection::open_with_flags(path, flags).map_err(unusable)?;
    connection.busy_timeout(PATIENCE).map_err(failure)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// Brings the schema up to this version. Safe when several processes start at once: they take turns.
pub(super) fn migrate(connection: &mut Connection, now: Timestamp) -> Result<()> {
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failure)?;
    if is_fresh(&transaction)? {
        transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(failure)?;
    }
    transaction
        .execute_batch(
            "CREATE TABLE IF NOT EXISTS migrations (
                version INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied_at INTEGER NOT NULL
            ) STRICT",
        )
        .map_err(failure)?;
    let applied = applied(&transaction)?.len();
    for (number, (name, sql)) in (1_i64..).zip(MIGRATIONS).skip(applied) {
        transaction.execute_batch(sql).map_err(failure)?;
        let row = params![number, name, checksum(sql), now.as_micros()];
        transaction.execute("INSERT INTO migrations VALUES (?, ?, ?, ?)", row).map_err(failure)?;
    }
    transaction.commit().map_err(failure)
}

/// The migrations that a database has had. One that this program does not know, or knows otherwise, is refused.
fn applied(connection: &Connection) -> Result<Vec<Migration>> {
    let mut statement = connection
        .prepare("SELECT version, name, applied_at, checksum FROM migrations ORDER BY version")
        .map_err(failure)?;
    let decode = |row: &Row<'_>| {
        let applied_at = Some(row::time(row, 2)?);
        Ok((Migration { version: row.get(0)?, name: row.get(1)?, applied_at }, row.get::<_, String>(3)?))
    };
    let rows = statement.query_map([], decode).and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>);
    let rows = rows.map_err(failure)?;
    if let Some((Migration { version, .. }, _)) = rows.get(MIGRATIONS.len()..).and_then(<[_]>::last) {
        let known = MIGRATIONS.len();
        return Err(Error::Unusable(format!(
            "its schema is version {version} and this program knows {known}; use a newer windlass"
        )));
    }
    for ((Migration { version, name, .. }, sum), (_, sql)) in rows.iter().zip(MIGRATIONS) {
        if *sum != checksum(sql) {
            let what = format!("migration {version} ({name}) is not the one that was applied to it");
            return Err(Error::Unusable(what));
        }
    }
    Ok(rows.into_iter().map(|(migration, _)| migration).collect())
}

/// FNV-1a: enough to notice that a text was edited.
fn checksum(sql: &str) -> String {
    let hash = sql.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}
