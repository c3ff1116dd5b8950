//! Where measurements are made: files in a directory, or a schema of a PostgreSQL database. Nothing of it
//! stays.

use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};
use windlass::Windlass;

use crate::address::{for_driver, is_postgres, with_settings, without_password};

/// How often it is tried to remove what something may still be writing to.
const TRIES: usize = 100;

pub(super) enum Ground {
    Files(TempDir),
    Schema(Schema),
}

/// A schema that is made, used and dropped again and again.
pub(super) struct Schema {
    /// With the schema's name as that of the application, so that its connections can be told from others.
    address: String,
    name: String,
    client: Client,
}

/// An empty store, for one measurement.
pub(super) struct Plot {
    pub(super) windlass: Windlass,
    /// Removed when it is dropped.
    _files: Option<TempDir>,
}

impl Ground {
    /// Below the present directory, or in the database that the address names.
    pub(super) async fn new(address: &str) -> Result<Self> {
        if !is_postgres(address) {
            return Ok(Self::Files(tempfile::Builder::new().prefix("windlass-bench-").tempdir_in(".")?));
        }
        let id = windlass::task_id().to_string();
        let name = format!("windlass_bench_{}", &id[id.len() - 12..]);
        // The connection that drops the schema comes first: without it nothing is made.
        let refused = |error: tokio_postgres::Error| {
            let why = std::error::Error::source(&error).map(|why| format!(": {why}")).unwrap_or_default();
            let place = without_password(address);
            anyhow!("{place} cannot be reached: {error}{why}; bench connects without TLS, to drop its schema")
        };
        let mut config: tokio_postgres::Config = for_driver(address).parse().map_err(refused)?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(10));
        }
        let (client, connection) = config.connect(NoTls).await.map_err(refused)?;
        tokio::spawn(connection);
        let address = with_settings(address, &[("schema", &name), ("application_name", &name)]);
        Ok(Self::Schema(Schema { address, name, client }))
    }

    /// An empty store. The last one is gone.
    pub(super) async fn plot(&self, durability: Option<&str>) -> Result<Plot> {
        match self {
            Self::Files(directory) => {
                let files = tempfile::tempdir_in(directory)?;
                let path = files.path().join("bench.db");
                let path = path.to_str().context("the directory's name is not UTF-8")?;
                let durability = durability.unwrap_or("full");
                let windlass = Windlass::open(&format!("sqlite:{path}?durability={durability}")).await?;
                Ok(Plot { windlass, _files: Some(files) })
            }
            Self::Schema(schema) => {
                schema.drop_schemas().await?;
                Ok(Plot { windlass: Windlass::open(&schema.address).await?, _files: None })
            }
        }
    }

    /// Removes everything. Something may still write there for a moment, if the measurement was broken off.
    pub(super) async fn remove(self) -> Result<()> {
        match self {
            Self::Files(directory) => {
                let path = directory.keep();
                again(async || Ok(std::fs::remove_dir_all(&path)?)).await
            }
            Self::Schema(schema) => {
                let removed = again(async || {
                    schema.disconnect().await?;
                    schema.drop_schemas().await
                });
                removed.await.with_context(|| format!("the schema {} is still there; drop it", schema.name))
            }
        }
    }
}

/// Tries until it works, or it has been tried often enough.
async fn again(attempt: impl AsyncFn() -> Result<()>) -> Result<()> {
    for _ in 1..TRIES {
        if attempt().await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    attempt().await
}

impl Schema {
    /// Ends all connections of the measurement, and so what they are in the middle of.
    async fn disconnect(&self) -> Result<()> {
        let name = &self.name;
        let text = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{name}'"
        );
        self.client.simple_query(&text).await?;
        Ok(())
    }

    /// Drops the schema and those that were made beside it, whose names begin with its own.
    async fn drop_schemas(&self) -> Result<()> {
        let name = &self.name;
        let text = format!(
            "SELECT nspname FROM pg_namespace WHERE nspname = '{name}' OR starts_with(nspname::text, '{name}_')"
        );
        let rows = self.client.simple_query(&text).await?;
        let names: Vec<&str> = rows
            .iter()
            .filter_map(|row| match row {
                SimpleQueryMessage::Row(row) => row.get(0),
                _ => None,
            })
            .collect();
        if !names.is_empty() {
            let names = names.join(", ");
            let text = format!("BEGIN; SET LOCAL lock_timeout = '5s'; DROP SCHEMA {names} CASCADE; COMMIT");
            if let Err(error) = self.client.batch_execute(&text).await {
                // What was begun is undone, so that it can be tried again.
                self.client.batch_execute("ROLLBACK").await?;
                return Err(error.into());
            }
        }
        Ok(())
    }
}
