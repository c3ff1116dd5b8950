//! One run of the program: which store, whose tasks, and how to speak.
//!
//! A command opens the store when it has understood everything it was given, so that a mistake makes no file.

use std::ffi::OsString;
use std::io::{ErrorKind, Write, stdout};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result, anyhow};
use windlass::{Client, Name, Windlass, sqlite};
use windlass_store::postgres::{self, Migration};

use crate::address::{hiding, is_postgres, sqlite_path, without_password};
use crate::escape;
use crate::failure::Usage;
use crate::paint::Paint;
use crate::place::{Place, is_server};
use crate::show::Answer;

/// What commands work with.
#[derive(Debug)]
pub(crate) struct Session {
    place: Place,
    namespace: Option<Name>,
    json: bool,
    paint: Paint,
    opened: OnceLock<Windlass>,
}

impl Session {
    pub(crate) fn new(place: Place, namespace: Option<Name>, json: bool) -> Self {
        Self { place, namespace, json, paint: Paint::for_stdout(json), opened: OnceLock::new() }
    }

    /// Whether it works through a server, which then does what a store on its own would leave to the command.
    pub(crate) fn is_remote(&self) -> bool {
        is_server(self.address())
    }

    /// The option that names the store, for a command that is shown to people.
    pub(crate) fn option(&self) -> String {
        let name = if self.is_remote() { "--server" } else { "--store" };
        format!("{name} {}", without_password(self.address()))
    }

    /// What programs that this one starts find in their environment. Unless the store is passed on to them,
    /// they find neither where it is nor what opens it: nothing that this program reads for itself.
    pub(crate) fn environment(&self, pass_store: bool) -> Environment {
        if !pass_store {
            let is_postgres = is_postgres(self.address());
            let is_ours = |name: &OsString| {
                let name = name.to_string_lossy();
                name.starts_with("WINDLASS_") || (is_postgres && POSTGRES.contains(&&*name))
            };
            let unset = std::env::vars_os().map(|(name, _)| name).filter(is_ours).collect();
            return Environment { set: Vec::new(), unset };
        }
        let (store, server) = ("WINDLASS_STORE", "WINDLASS_SERVER");
        let (mine, other) = if self.is_remote() { (server, store) } else { (store, server) };
        let ca_file = self.place.ca_file().map(|path| ("WINDLASS_CA_FILE", path.into_os_string()));
        let set = std::iter::once((mine, everywhere(self.address()).into())).chain(ca_file).collect();
        Environment { set, unset: vec![other.into()] }
    }

    /// Whether text is coloured.
    pub(crate) fn paint(&self) -> Paint {
        self.paint
    }

    /// Prints an answer, for people or for programs.
    pub(crate) fn show(&self, answer: &Answer) -> Result<()> {
        if self.json { print(&format!("{}\n", escape::json(&answer.json))) } else { print(&answer.text) }
    }

    /// Whether the answer is for a program.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// The store's address, as it was given.
    pub(crate) fn address(&self) -> &str {
        &self.place.address
    }

    /// Who named the store, if anybody did.
    pub(crate) fn named_by(&self) -> Option<&'static str> {
        self.place.from
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
        let windlass = match self.is_remote() {
            true => Windlass::new(Arc::new(self.place.server()?.open().await?)),
            false => Windlass::open(self.address()).await.map_err(|error| hiding(self.address(), error))?,
        };
        Ok(self.opened.get_or_init(|| windlass))
    }

    /// The engine on the store, which must be there: looking at something does not make it.
    pub(crate) async fn open_existing(&self) -> Result<&Windlass> {
        if let Some(path) = sqlite_path(self.address()).filter(|path| !path.exists()) {
            return Err(anyhow!(
                "there is no database {}; `windlass submit` or `windlass migrate` makes one, and --store names another",
                path.display()
            ));
        }
        if is_postgres(self.address()) && self.migrations().await?.iter().all(|one| one.applied_at.is_none())
        {
            return Err(anyhow!(
                "there is no schema {} in {}; `windlass submit` or `windlass migrate` makes it, and --store names another",
                self.postgres()?.get_schema().as_str(),
                without_password(self.address())
            ));
        }
        self.open().await
    }

    /// How to open the PostgreSQL database.
    pub(crate) fn postgres(&self) -> Result<postgres::Options> {
        Ok(postgres::Options::new(self.address()).map_err(|error| hiding(self.address(), error))?)
    }

    /// The migrations that the store has had and those it has yet to get, in order. Only looks. A store in
    /// memory has none.
    pub(crate) async fn migrations(&self) -> Result<Vec<Migration>> {
        match sqlite_path(self.address()) {
            Some(path) => Ok(sqlite::migrations(path)?),
            None if is_postgres(self.address()) => Ok(self.postgres()?.migrations().await?),
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

/// What opens a PostgreSQL database, and where it is.
const POSTGRES: [&str; 8] =
    ["PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGPASSWORD", "PGPASSFILE", "PGSSLMODE", "PGSSLROOTCERT"];

/// Variables of the environment: those that are removed, then those that are set.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    pub(crate) set: Vec<(&'static str, OsString)>,
    pub(crate) unset: Vec<OsString>,
}

/// A store's address that is good in any directory, if that can be told.
fn everywhere(address: &str) -> String {
    let absolute = |path: PathBuf| path.into_os_string().into_string().ok();
    let path = sqlite_path(address).and_then(|path| absolute(std::path::absolute(path).ok()?));
    let options = address.split_once('?').map_or_else(String::new, |(_, options)| format!("?{options}"));
    path.map_or_else(|| address.into(), |path| format!("sqlite:{path}{options}"))
}

/// Prints to standard output. A reader that has seen enough (`| head`) is no failure.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("standard output"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_good_in_any_directory() {
        let here = std::env::current_dir().unwrap();
        let here = here.to_str().unwrap();
        assert_eq!(everywhere("sqlite:a.db"), format!("sqlite:{here}/a.db"));
        assert_eq!(
            everywhere("sqlite:b/a.db?durability=normal"),
            format!("sqlite:{here}/b/a.db?durability=normal")
        );
        assert_eq!(everywhere("memory:"), "memory:");
        assert_eq!(everywhere("http://x:7070/a?b"), "http://x:7070/a?b");
    }
}
