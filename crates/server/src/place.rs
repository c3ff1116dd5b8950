//! Which store a command works on, as it was typed: a store itself, or a server, and what the server needs to
//! let it in.

use std::io::{Write, stderr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::ArgMatches;
use clap::Args;
use clap::parser::ValueSource;
use windlass::remote::Options;

use crate::failure::Usage;

/// What stands in the environment for a server that needs a token.
const TOKEN: &str = "WINDLASS_TOKEN";

/// Where tasks live.
#[derive(Args, Debug)]
pub(crate) struct PlaceArgs {
    /// Where tasks live: memory:, sqlite:PATH, sqlite:PATH?durability=normal or
    /// postgres://USER:PASSWORD@HOST/DATABASE [default: sqlite:windlass.db; for run, a file beside its own]
    #[arg(
        long,
        global = true,
        help_heading = "Options of all commands",
        value_name = "ADDRESS",
        env = "WINDLASS_STORE",
        hide_env_values = true
    )]
    store: Option<String>,
    /// Work through a server instead: http://HOST:PORT or https://HOST:PORT. A token for it is read from
    /// WINDLASS_TOKEN
    #[arg(
        long,
        global = true,
        help_heading = "Options of all commands",
        value_name = "URL",
        env = "WINDLASS_SERVER"
    )]
    server: Option<String>,
    /// Read the token for the server from this file
    #[arg(long, global = true, help_heading = "Options of all commands", value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Trust the authorities in this file, in PEM form, to say who the server is, beside the public ones
    #[arg(
        long,
        global = true,
        help_heading = "Options of all commands",
        value_name = "FILE",
        env = "WINDLASS_CA_FILE"
    )]
    ca_file: Option<PathBuf>,
}

/// Where tasks live: a store's address, or a server's.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) address: String,
    /// Who named the store; nobody, if it is the one that a command uses unless it is told.
    pub(crate) from: Option<&'static str>,
    token_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
}

/// Whether it is the address of a server.
pub(crate) fn is_server(address: &str) -> bool {
    address.starts_with("http://") || address.starts_with("https://")
}

impl PlaceArgs {
    /// What is meant: what was typed beats what the environment says, and two of a kind cannot both be meant.
    pub(crate) fn place(self, typed: &ArgMatches, default: impl FnOnce() -> Result<String>) -> Result<Place> {
        let is_typed = |id| typed.value_source(id) == Some(ValueSource::CommandLine);
        let address = match (self.store, self.server) {
            (Some(_), Some(_)) if is_typed("store") && is_typed("server") => {
                return Err(Usage::new("--store and --server cannot both be meant; choose one").into());
            }
            (Some(store), Some(server)) => match (is_typed("store"), is_typed("server")) {
                (true, _) => store,
                (_, true) => checked(server)?,
                _ => {
                    let told = "WINDLASS_STORE and WINDLASS_SERVER are both set; unset one, or say --store or --server";
                    return Err(Usage::new(told).into());
                }
            },
            (Some(store), None) => store,
            (None, Some(server)) => checked(server)?,
            (None, None) => default()?,
        };
        if let (Some(path), false) = (&self.token_file, is_server(&address)) {
            let told = format!("--token-file {} is for a server; name one with --server", path.display());
            return Err(Usage::new(told).into());
        }
        // In the environment it may be meant for another program.
        let ca_file = self.ca_file.filter(|_| is_typed("ca_file") || address.starts_with("https://"));
        if let (Some(path), false) = (&ca_file, address.starts_with("https://")) {
            let told = format!("--ca-file {} is for a server at https://…", path.display());
            return Err(Usage::new(told).into());
        }
        let from = match typed.value_source("store") {
            Some(ValueSource::CommandLine) => Some("flag --store"),
            Some(ValueSource::EnvVariable) => Some("environment WINDLASS_STORE"),
            _ => None,
        };
        Ok(Place { address, from, token_file: self.token_file, ca_file })
    }
}

/// The address of a server, and of nothing else.
fn checked(server: String) -> Result<String> {
    Options::new(&server)?;
    Ok(server)
}

impl Place {
    /// How to open the server.
    pub(crate) fn server(&self) -> Result<Options> {
        let mut options = Options::new(&self.address)?;
        if let Some(token) = self.token()? {
            options = options.token(token);
        }
        if let Some(path) = &self.ca_file {
            options = options.ca_file(path);
        }
        Ok(options)
    }

    /// The file of authorities, for those who work in another directory.
    pub(crate) fn ca_file(&self) -> Option<PathBuf> {
        self.ca_file.as_ref().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()))
    }

    fn token(&self) -> Result<Option<String>> {
        let Some(path) = &self.token_file else {
            return Ok(std::env::var(TOKEN).ok().filter(|token| !token.is_empty()));
        };
        let text = read(path).with_context(|| format!("the token file {}", path.display()))?;
        warn_of_readers(path);
        match text.trim() {
            "" => Err(Usage::new(format!("the token file {} is empty", path.display())).into()),
            token => Ok(Some(token.to_owned())),
        }
    }
}

/// A token is a password: says so if its file is open to every user of the machine.
fn warn_of_readers(path: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(path).map_or(0, |file| file.permissions().mode());
        if mode & 0o004 != 0 {
            let path = path.display();
            let _ = writeln!(
                stderr(),
                "warning: every user of this machine can read the token file {path}; chmod 600 {path}"
            );
        }
    }
}

fn read(path: &Path) -> Result<String, Usage> {
    std::fs::read_to_string(path).map_err(|error| Usage::new(error.to_string()))
}
