//! Opening a database file: its settings, and its numbered migrations.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, Row, TransactionBehavior, params};
use windlass_core::Timestamp;

use super::failure::{failure, is_busy, of_file};
use super::{Durability, row};
use crate::error::{Error, Result};
use crate::migration::{self, Known, Migration, checksum};

/// `WIND`: tells a Windlass database from any other SQLite file.
const APPLICATION_ID: i32 = 0x5749_4e44;

/// Twice SQLite's default: a level less in every tree of a million tasks, which matters more than the larger
/// log of a small commit.
const PAGE_SIZE: u32 = 8192;

/// How long one statement waits for another process.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long another process may hold the write lock before opening fails: as long as any other write waits.
const OPEN_PATIENCE: Duration = super::writer::PATIENCE;

const MIGRATIONS: &Known = &[
    ("tasks", include_str!("migrations/001_tasks.sql")),
    ("documents", include_str!("migrations/002_documents.sql")),
    ("notes_and_schedules", include_str!("migrations/003_notes_and_schedules.sql")),
    ("workflows", include_str!("migrations/004_workflows.sql")),
    ("events", include_str!("migrations/005_events.sql")),
    ("access", include_str!("migrations/006_access.sql")),
    ("traces", include_str!("migrations/007_traces.sql")),
    ("left_out", include_str!("migrations/008_left_out.sql")),
    ("due_to_claim", include_str!("migrations/009_due_to_claim.sql")),
    ("worker_secret", include_str!("migrations/010_worker_secret.sql")),
    ("token_limits", include_str!("migrations/011_token_limits.sql")),
    ("activity_by_namespace", include_str!("migrations/012_activity_by_namespace.sql")),
];

/// The connection that writes.
pub(super) fn writer(path: &Path, durability: Durability) -> Result<Connection> {
    create_private(path);
    let connection = connect(path, OpenFlags::default())?;
    connection.busy_timeout(OPEN_PATIENCE).map_err(failure)?;
    // In one snapshot, because another process may be making the file just now; and before anything is
    // changed.
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

/// Creates the file for its owner alone: payloads and results may be secret. SQLite gives the files beside it
/// the same mode. A file that is there keeps its mode. If it cannot be created, SQLite says why.
fn create_private(path: &Path) {
    // SQLite reads such a path as an address.
    if path.to_str().is_none_or(|path| path.is_empty() || path.starts_with(':') || path.starts_with("file:"))
    {
        return;
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    drop(options.open(path));
}

/// WAL lets readers go on while the writer writes. It is a property of the file; setting it again costs
/// nothing. The first time it turns a read lock into a write lock, for which SQLite never waits: so wait by
/// taking the write lock, and try again.
fn switch_to_wal(connection: &Connection) -> Result<()> {
    let since = Instant::now();
    loop {
        match connection.pragma_update(None, "journal_mode", "wal") {
            Ok(()) => return Ok(()),
            Err(error) if is_busy(&error) && since.elapsed() < OPEN_PATIENCE => {
                connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK").map_err(failure)?;
            }
            Err(error) => return Err(failure(error)),
        }
    }
}

/// Whether nothing is in the file yet. A file of another program is refused.
pub(super) fn is_fresh(connection: &Connection) -> Result<bool> {
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

/// The migrations that the file at `path` has had and those it has yet to get, in order. Only looks: nothing
/// is applied, and a file that is not there is not made.
pub fn migrations(path: impl AsRef<Path>) -> Result<Vec<Migration>> {
    let path = std::path::absolute(path.as_ref())
        .map_err(|error| Error::Unusable(format!("{:?} is not a path: {error}", path.as_ref())))?;
    let mut migrations = Vec::new();
    if path.exists() {
        let named = |error| of_file(&path, error);
        let connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        if !is_fresh(&connection).map_err(named)? {
            migrations = applied(&connection).map_err(named)?;
        }
    }
    Ok(migration::all(migrations, MIGRATIONS))
}

/// A connection that only reads.
pub(super) fn reader(path: &Path) -> Result<Connection> {
    let connection = connect(path, OpenFlags::default() - OpenFlags::SQLITE_OPEN_CREATE)?;
    connection.pragma_update(None, "query_only", true).map_err(failure)?;
    connection.pragma_update(None, "cache_size", -4 * 1024).map_err(failure)?;
    Ok(connection)
}

pub(super) fn connect(path: &Path, flags: OpenFlags) -> Result<Connection> {
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
    for (number, name, sql) in migration::missing(applied, MIGRATIONS) {
        transaction.execute_batch(sql).map_err(failure)?;
        let row = params![number, name, checksum(sql), now.as_micros()];
        transaction.execute("INSERT INTO migrations VALUES (?, ?, ?, ?)", row).map_err(failure)?;
    }
    transaction.commit().map_err(failure)?;
    connection.busy_timeout(PATIENCE).map_err(failure)
}

/// The migrations that a database has had.
pub(super) fn applied(connection: &Connection) -> Result<Vec<Migration>> {
    let mut statement = connection
        .prepare("SELECT version, name, applied_at, checksum FROM migrations ORDER BY version")
        .map_err(failure)?;
    let decode = |row: &Row<'_>| {
        let applied_at = Some(row::time(row, 2)?);
        Ok((Migration { version: row.get(0)?, name: row.get(1)?, applied_at }, row.get::<_, String>(3)?))
    };
    let rows = statement.query_map([], decode).and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>);
    let rows = rows.map_err(failure)?;
    migration::check(rows, MIGRATIONS)
}
