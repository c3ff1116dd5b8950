//! One run of the program: which store, whose tasks, and how to speak.
//!
//! A command opens the store when it has understood everything it was given, so that a mistake makes no file.

use std::io::{ErrorKind, Write, stdout};
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow};
use windlass::{Client, Name, Windlass, sqlite};
use windlass_store::postgres::{self, Migration};

use crate::address::{hiding, is_postgres, sqlite_path, without_password};
use crate::failure::Usage;
use crate::paint::Paint;

/// What commands work with.
#[derive(Debug)]
pub(crate) struct Session {
    address: String,
    namespace: Option<Name>,
    json: bool,
    paint: Paint,
    opened: OnceLock<Windlass>,
}

impl Session {
    pub(crate) fn new(address: &str, namespace: Option<Name>, json: bool) -> Self {
        let (address, paint) = (address.into(), Paint::for_stdout(json));
        Self { address, namespace, json, paint, opened: OnceLock::new() }
    }

    /// Whether text is coloured.
    pub(crate) fn paint(&self) -> Paint {
        self.paint
    }

    /// Whether the answer is for a program.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// The store's address, as it was given.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The namespace that was given, or `default`.
    pub(crate) fn namespace(&self) -> Name {
        self.namespace.clone().unwrap_or_default()
    }

    /// The namespace, if one was given.
    pub(crate) fn given_namespace(&self) -> Option<&Name> {
        self.namespace.as_ref()
    }

    /// The namespace that a listing is about, or `None` for all of them.
    pub(crate) fn scope(&self, everywhere: bool) -> Result<Option<Name>> {
        match (everywhere, &self.namespace) {
            (true, Some(namespace)) => Err(Usage::new(format!(
                "--all-namespaces cannot be used with --namespace {namespace}; choose one"
            ))
            .into()),
            (true, None) => Ok(None),
            (false, _) => Ok(Some(self.namespace())),
        }
    }

    /// The engine on the store, which is made if it is not there.
    pub(crate) async fn open(&self) -> Result<&Windlass> {
        if let Some(windlass) = self.opened.get() {
            return Ok(windlass);
        }
        let opened = Windlass::open(&self.address).await;
        let windlass = opened.map_err(|error| hiding(&self.address, error))?;
        Ok(self.opened.get_or_init(|| windlass))
    }

    /// The engine on the store, which must be there: looking at something does not make it.
    pub(crate) async fn open_existing(&self) -> Result<&Windlass> {
        if let Some(path) = sqlite_path(&self.address).filter(|path| !path.exists()) {
            return Err(anyhow!(
                "there is no database {}; `windlass submit` or `windlass migrate` makes one, and --store names another",
                path.display()
            ));
        }
        if is_postgres(&self.address) && self.migrations().await?.iter().all(|one| one.applied_at.is_none()) {
            return Err(anyhow!(
                "there is no schema {} in {}; `windlass submit` or `windlass migrate` makes it, and --store names another",
                self.postgres()?.get_schema().as_str(),
                without_password(&self.address)
            ));
        }
        self.open().await
    }

    /// How to open the PostgreSQL database.
    pub(crate) fn postgres(&self) -> Result<postgres::Options> {
        Ok(postgres::Options::new(&self.address).map_err(|error| hiding(&self.address, error))?)
    }

    /// The migrations that the store has had and those it has yet to get, in order. Only looks. A store in memory has none.
    pub(crate) async fn migrations(&self) -> Result<Vec<Migration>> {
        match sqlite_path(&self.address) {
            Some(path) => Ok(sqlite::migrations(path)?),
            None if is_postgres(&self.address) => Ok(self.postgres()?.migrations().await?),
            None => Ok(Vec::new()),
        }
    }

    /// A client of the namespace, on a store that is made if it is not there.
    pub(crate) async fn client(&self) -> Result<Client> {
        Ok(self.open().await?.client().namespace(&self.namespace())?)
    }

    /// A client of the namespace, on a store that must be there.
    pub(crate) async fn existing(&self) -> Result<Client> {
        Ok(self.open_existing().await?.client().namespace(&self.namespace())?)
    }

    /// Closes the store, if it was opened.
    pub(crate) async fn close(&self) -> Result<()> {
        match self.opened.get() {
            Some(windlass) => Ok(windlass.close().await?),
            None => Ok(()),
        }
    }

    /// Prints to standard output at once, for commands that take their time. Not beside JSON.
    pub(crate) fn say(&self, line: &str) -> Result<()> {
        if self.json { Ok(()) } else { print(&format!("{line}\n")) }
    }
}

/// Prints to standard output. A reader that has seen enough (`| head`) is no failure.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("standard output"),
        _ => Ok(()),
    }
}
