//! Migrations of the schema: safe with many processes starting at once, for they take turns.

use tokio_postgres::Client;
use windlass_core::Timestamp;

use super::failure::{Failure, words};
use super::tx::{args, run};
use super::{Schema, row, tasker};
use crate::error::{Error, Result};
use crate::migration::{self, Known, Migration, checksum};

const MIGRATIONS: &Known = &[
    ("tasks", include_str!("migrations/001_tasks.sql")),
    ("functions", include_str!("migrations/002_functions.sql")),
    ("documents", include_str!("migrations/003_documents.sql")),
    ("workflows", include_str!("migrations/004_workflows.sql")),
    ("tasker", tasker::SQL),
    ("events", include_str!("migrations/006_events.sql")),
    ("access", include_str!("migrations/007_access.sql")),
    ("traces", include_str!("migrations/008_traces.sql")),
    ("event_order", include_str!("migrations/009_event_order.sql")),
    ("feed_rights", include_str!("migrations/010_feed_rights.sql")),
    ("submit_cost", include_str!("migrations/011_submit_cost.sql")),
    ("left_out", include_str!("migrations/012_left_out.sql")),
    ("due_to_claim", include_str!("migrations/013_due_to_claim.sql")),
    ("worker_secret", include_str!("migrations/014_worker_secret.sql")),
    ("token_limits", include_str!("migrations/015_token_limits.sql")),
    ("reserved_ids", include_str!("migrations/016_reserved_ids.sql")),
    ("activity_by_namespace", include_str!("migrations/017_activity_by_namespace.sql")),
];

/// PostgreSQL before this lacks what the statements use.
const OLDEST: i32 = 140_000;

/// The text of all migrations, for those who apply them by hand or read them first.
#[must_use]
pub fn sql(schema: &Schema) -> String {
    let head = |version: i64, name: &str| format!("-- Migration {version}: {name}\n\n");
    let mut text = format!("BEGIN;\n{}", preamble(schema));
    for (version, name, sql) in migration::missing(0, MIGRATIONS) {
        text += &format!("\n{}{}\n{}", head(version, name), fit(sql, schema), record(version, name, sql));
    }
    text + "\nCOMMIT;\n"
}

/// What comes before the first migration. Everything is made in the schema, which is the only one in the
/// path.
fn preamble(schema: &Schema) -> String {
    format!(
        "SELECT pg_advisory_xact_lock({salt});\n\
        CREATE SCHEMA IF NOT EXISTS {schema};\n\
        SET LOCAL search_path = {schema};\n\
        CREATE TABLE IF NOT EXISTS migrations (\n    \
            version bigint PRIMARY KEY, name text NOT NULL, checksum text NOT NULL, applied_at timestamptz NOT NULL\n);\n",
        salt = schema.salt()
    )
}

/// Names of other schemas follow this one's.
fn fit(sql: &str, schema: &Schema) -> String {
    sql.replace("{schema}", schema.as_str())
        .replace("{salt}", &schema.salt().to_string())
        .replace("{prefix}", &schema.prefix())
}

fn record(version: i64, name: &str, sql: &str) -> String {
    format!("INSERT INTO migrations VALUES ({version}, '{name}', '{}', now());\n", checksum(sql))
}

/// Brings the schema up to this version.
pub(super) async fn migrate(client: &Client, schema: &Schema) -> Result<()> {
    let unusable = |error: tokio_postgres::Error| match Failure::from(error).error() {
        Error::Unavailable(why) => Error::Unavailable(format!("the schema cannot be made: {why}")),
        error => error,
    };
    let version = run(client, "SELECT current_setting('server_version_num')::int", Vec::new()).await;
    let version: i32 =
        row::get(&version.map_err(unusable)?.rows[0], 0).map_err(|error| Failure::from(error).error())?;
    if version < OLDEST {
        let why = format!("PostgreSQL {} is too old; 14 is the oldest that will do", version / 10_000);
        return Err(Error::Unusable(why));
    }
    // Most of the time there is nothing to do, and nobody need wait for that to be found out.
    if applied(client, schema).await?.len() == MIGRATIONS.len() {
        return Ok(());
    }
    let migrating = async {
        client.batch_execute(&format!("BEGIN; {}", preamble(schema))).await.map_err(unusable)?;
        let applied = applied(client, schema).await?.len();
        for (version, name, sql) in migration::missing(applied, MIGRATIONS) {
            let text = format!("{}; {}", fit(sql, schema), record(version, name, sql));
            client.batch_execute(&text).await.map_err(|error| {
                Error::Unusable(format!("migration {version} ({name}) failed: {}", words(&error)))
            })?;
        }
        client.batch_execute("COMMIT").await.map_err(unusable)
    };
    let done = migrating.await;
    if done.is_err() {
        // The connection is of no further use, whatever this says.
        let _ = client.batch_execute("ROLLBACK").await;
    }
    done
}

/// The migrations that the schema has had.
async fn applied(client: &Client, schema: &Schema) -> Result<Vec<Migration>> {
    let failed = |error: tokio_postgres::Error| Failure::from(error).error();
    let exists = format!("SELECT to_regclass('{schema}.migrations') IS NOT NULL");
    let exists = run(client, &exists, Vec::new()).await.map_err(failed)?;
    if !row::get::<bool>(&exists.rows[0], 0).map_err(|error| Failure::from(error).error())? {
        return Ok(Vec::new());
    }
    let text =
        format!("SELECT version, name, checksum, applied_at FROM {schema}.migrations ORDER BY version");
    let rows = run(client, &text, args![]).await.map_err(failed)?.rows;
    let decode = |row| {
        let applied_at: Option<Timestamp> = Some(row::time(row, 3)?);
        Ok((Migration { version: row::get(row, 0)?, name: row::get(row, 1)?, applied_at }, row::get(row, 2)?))
    };
    let rows: Result<Vec<(Migration, String)>, row::Foreign> = rows.iter().map(decode).collect();
    migration::check(rows.map_err(|error| Failure::from(error).error())?, MIGRATIONS)
}

/// The migrations that the schema has had and those it has yet to get, in order. Only looks.
pub(super) async fn migrations(client: &Client, schema: &Schema) -> Result<Vec<Migration>> {
    Ok(migration::all(applied(client, schema).await?, MIGRATIONS))
}
