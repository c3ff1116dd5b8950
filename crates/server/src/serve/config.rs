//! What a server is told, and by whom: a flag, the environment, one optional file, or nobody.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use windlass::{Retention, State};

use crate::backup::scheduled::BackupPlan;
use crate::duration;
use crate::failure::Usage;
use crate::http::Limits;
use crate::prune::keep;

/// Settings, as they were typed: each is a flag, a variable of the environment (`WINDLASS_` and the name) and
/// a key of the file.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct SettingArgs {
    /// Where to listen [default: 127.0.0.1:7070]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// The server's certificates, in PEM, for TLS
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<String>,
    /// The key for the first of them, in PEM
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,
    /// Origins of pages that may use this server, beside its own; several with commas
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Option<String>,
    /// Connections at once [default: 10000]
    #[arg(long, value_name = "N")]
    max_connections: Option<String>,
    /// Requests worked on at once [default: 256]
    #[arg(long, value_name = "N")]
    max_requests: Option<String>,
    /// Requests that wait for work at once [default: 5000]
    #[arg(long, value_name = "N")]
    max_waiting: Option<String>,
    /// Bytes of one body [default: 16777216]
    #[arg(long, value_name = "BYTES")]
    max_body_bytes: Option<String>,
    /// Bytes of one definition [default: 1048576]
    #[arg(long, value_name = "BYTES")]
    max_definition_bytes: Option<String>,
    /// How long a request may take to begin to arrive [default: 10s]
    #[arg(long, value_name = "DURATION")]
    header_timeout: Option<String>,
    /// How long a body may take to arrive, and an answer to be read [default: 30s]
    #[arg(long, value_name = "DURATION")]
    body_timeout: Option<String>,
    /// Requests per second of one token, 0 for no limit [default: 0]
    #[arg(long, value_name = "N")]
    rate_limit: Option<String>,
    /// Listeners to events of one token [default: 32]
    #[arg(long, value_name = "N")]
    listeners_per_token: Option<String>,
    /// How long requests may go on after Ctrl-C [default: 30s]
    #[arg(long, value_name = "DURATION")]
    drain: Option<String>,
    /// How long tasks of final states are kept, such as completed=7d,failed=30d [default: for ever]
    #[arg(long, value_name = "STATE=AGE")]
    keep: Option<String>,
    /// Back up a SQLite store into this directory [default: no backups]
    #[arg(long, value_name = "DIR")]
    backup_to: Option<String>,
    /// How often [default: 1h]
    #[arg(long, value_name = "DURATION")]
    backup_every: Option<String>,
    /// How many backups to keep [default: 24]
    #[arg(long, value_name = "N")]
    backup_keep: Option<String>,
    /// How long to keep backups; the newest always stays [default: as many as --backup-keep says]
    #[arg(long, value_name = "DURATION")]
    backup_keep_for: Option<String>,
}

/// What a server does.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) listen: SocketAddr,
    /// Certificates and key.
    pub(crate) tls: Option<(PathBuf, PathBuf)>,
    pub(crate) connections: usize,
    pub(crate) header_time: Duration,
    pub(crate) drain: Duration,
    pub(crate) retention: Retention,
    pub(crate) backups: Option<BackupPlan>,
    pub(crate) limits: Limits,
    /// All of it, for people.
    pub(crate) shown: Vec<Shown>,
}

/// A setting, as it is shown.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Shown {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    /// `flag`, `environment WINDLASS_…`, `file PATH` or `default`.
    pub(crate) from: String,
}

/// The names of all settings, and what they are unless said. The store is known before the others.
const DEFAULTS: [(&str, &str); 20] = [
    ("store", "sqlite:windlass.db"),
    ("listen", "127.0.0.1:7070"),
    ("tls_cert", ""),
    ("tls_key", ""),
    ("allow_origin", ""),
    ("max_connections", "10000"),
    ("max_requests", "256"),
    ("max_waiting", "5000"),
    ("max_body_bytes", "16777216"),
    ("max_definition_bytes", "1048576"),
    ("header_timeout", "10s"),
    ("body_timeout", "30s"),
    ("rate_limit", "0"),
    ("listeners_per_token", "32"),
    ("drain", "30s"),
    ("keep", ""),
    ("backup_to", ""),
    ("backup_every", "1h"),
    ("backup_keep", "24"),
    ("backup_keep_for", ""),
];

/// A file with settings.
#[derive(Debug, Default)]
pub(crate) struct File {
    path: PathBuf,
    table: toml::Table,
}

impl File {
    pub(crate) fn read(path: Option<&Path>) -> Result<Self, Usage> {
        let Some(path) = path else { return Ok(Self::default()) };
        let wrong =
            |why: &dyn std::fmt::Display| Usage::new(format!("settings from {}: {why}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
        let table: toml::Table = text.parse().map_err(|error| wrong(&error))?;
        let known: BTreeSet<&str> = DEFAULTS.iter().map(|(name, _)| *name).collect();
        if let Some(unknown) = table.keys().find(|key| !known.contains(key.as_str())) {
            let known: Vec<_> = known.into_iter().collect();
            return Err(wrong(&format!("there is no setting {unknown:?}; there are {}", known.join(", "))));
        }
        Ok(Self { path: path.into(), table })
    }

    /// Where a setting comes from that neither a flag nor the environment says.
    pub(crate) fn origin(&self, name: &str) -> String {
        match self.table.contains_key(name) {
            true => format!("file {}", self.path.display()),
            false => "default".into(),
        }
    }

    /// A value as it would be typed.
    pub(crate) fn get(&self, name: &str) -> Result<Option<String>, Usage> {
        fn text(value: &toml::Value) -> Option<String> {
            match value {
                toml::Value::String(text) => Some(text.clone()),
                toml::Value::Integer(number) => Some(number.to_string()),
                toml::Value::Array(list) => {
                    Some(list.iter().map(text).collect::<Option<Vec<_>>>()?.join(","))
                }
                _ => None,
            }
        }
        let Some(value) = self.table.get(name) else { return Ok(None) };
        let told = || {
            format!(
                "{name} in {} is {}; expected a text, a number or a list",
                self.path.display(),
                value.type_str()
            )
        };
        text(value).map(Some).ok_or_else(|| Usage::new(told()))
    }
}

/// Finds out what holds.
struct Reader<'a> {
    file: &'a File,
    environment: &'a dyn Fn(&str) -> Option<String>,
    shown: Vec<Shown>,
}

impl Reader<'_> {
    /// The value that holds: the flag's, the environment's, the file's, or the default.
    fn get<T>(
        &mut self,
        name: &'static str,
        flag: Option<&String>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, Usage> {
        let default = DEFAULTS.iter().find(|(known, _)| *known == name).map_or("", |(_, default)| default);
        let variable = format!("WINDLASS_{}", name.to_uppercase());
        let in_environment = (self.environment)(&variable).filter(|value| !value.is_empty());
        let (value, from) = match (flag, in_environment, self.file.get(name)?) {
            (Some(value), ..) => (value.clone(), format!("flag --{}", name.replace('_', "-"))),
            (None, Some(value), _) => (value, format!("environment {variable}")),
            (None, None, value) => (value.unwrap_or_else(|| default.into()), self.file.origin(name)),
        };
        let told = |why| Usage::new(format!("{name} is {value:?} ({from}); expected {why}"));
        let read = read(&value).map_err(told)?;
        self.shown.push(Shown { name, value, from });
        Ok(read)
    }
}

fn number(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| "a number, 1 or more".into())
}

fn time(text: &str) -> Result<Duration, String> {
    let given = duration::parse(text).map_err(|invalid| invalid.expected)?;
    let is_fit = (Duration::from_millis(100)..=Duration::from_secs(86_400)).contains(&given);
    if is_fit { Ok(given) } else { Err("100ms to 1d".into()) }
}

/// Time between backups, or their age.
fn long_time(text: &str) -> Result<Duration, String> {
    let given = duration::parse(text).map_err(|invalid| invalid.expected)?;
    let is_fit = (Duration::from_secs(1)..=Duration::from_secs(3_650 * 86_400)).contains(&given);
    if is_fit { Ok(given) } else { Err("1s to 3650d".into()) }
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn origins(text: &str) -> Result<Vec<String>, String> {
    let origins = list(text);
    let is_origin = |origin: &String| {
        let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        host.is_some_and(|host| !host.is_empty() && !host.contains('/'))
    };
    match origins.iter().all(is_origin) {
        true => Ok(origins),
        false => Err("origins such as https://example.org, without a path".into()),
    }
}

fn retention(text: &str) -> Result<Retention, String> {
    list(text).iter().try_fold(Retention::default(), |retention, part| {
        let (state, age): (State, Duration) = keep(part).map_err(|invalid| invalid.expected)?;
        retention.keep(state, age).map_err(|invalid| invalid.expected)
    })
}

fn path(text: &str) -> Result<Option<PathBuf>, String> {
    Ok(Some(text).filter(|text| !text.is_empty()).map(PathBuf::from))
}

fn backups(reader: &mut Reader<'_>, args: &SettingArgs) -> Result<Option<BackupPlan>, Usage> {
    let directory = reader.get("backup_to", args.backup_to.as_ref(), path)?;
    let every = reader.get("backup_every", args.backup_every.as_ref(), long_time)?;
    let keep = reader.get("backup_keep", args.backup_keep.as_ref(), number)?;
    let keep_for = reader.get("backup_keep_for", args.backup_keep_for.as_ref(), |text| match text {
        "" => Ok(None),
        text => long_time(text).map(Some),
    })?;
    Ok(directory.map(|directory| BackupPlan { directory, every, keep, keep_for }))
}

impl Config {
    /// What holds, given flags, a file and the environment.
    pub(crate) fn read(
        args: &SettingArgs,
        file: &File,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, Usage> {
        let mut reader = Reader { file, environment, shown: Vec::new() };
        let listen: SocketAddr = reader.get("listen", args.listen.as_ref(), |text| {
            text.parse().map_err(|_| "an address and a port, such as 127.0.0.1:7070 or [::1]:7070".into())
        })?;
        let cert = reader.get("tls_cert", args.tls_cert.as_ref(), path)?;
        let key = reader.get("tls_key", args.tls_key.as_ref(), path)?;
        let tls = match (cert, key) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => {
                return Err(Usage::new(
                    "tls_cert and tls_key are both needed for TLS, or neither without it",
                ));
            }
        };
        let limits = Limits {
            open: listen.ip().is_loopback(),
            without_tokens: false,
            origins: reader.get("allow_origin", args.allow_origin.as_ref(), origins)?,
            requests: reader.get("max_requests", args.max_requests.as_ref(), number)?,
            polls: reader.get("max_waiting", args.max_waiting.as_ref(), number)?,
            body_bytes: reader.get("max_body_bytes", args.max_body_bytes.as_ref(), number)?,
            definition_bytes: reader.get(
                "max_definition_bytes",
                args.max_definition_bytes.as_ref(),
                number,
            )?,
            body_time: reader.get("body_timeout", args.body_timeout.as_ref(), time)?,
            rate: reader.get("rate_limit", args.rate_limit.as_ref(), |text| {
                text.parse().map_err(|_| "a number of requests per second, 0 for no limit".into())
            })?,
            listeners: reader.get("listeners_per_token", args.listeners_per_token.as_ref(), number)?,
        };
        Ok(Self {
            listen,
            tls,
            connections: reader.get("max_connections", args.max_connections.as_ref(), number)?,
            header_time: reader.get("header_timeout", args.header_timeout.as_ref(), time)?,
            drain: reader.get("drain", args.drain.as_ref(), time)?,
            retention: reader.get("keep", args.keep.as_ref(), retention)?,
            backups: backups(&mut reader, args)?,
            limits,
            shown: reader.shown,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Result<File, Usage> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("windlass.toml");
        std::fs::write(&path, text).unwrap();
        File::read(Some(&path))
    }

    fn nothing(_: &str) -> Option<String> {
        None
    }

    #[test]
    fn a_flag_beats_the_environment_beats_the_file_beats_the_default() {
        let file = file("listen = \"127.0.0.1:3\"\nmax_requests = 3\nmax_waiting = 3\nkeep = ['completed=1d', 'failed=2d']\n").unwrap();
        let environment = |name: &str| match name {
            "WINDLASS_LISTEN" => Some("127.0.0.1:2".to_owned()),
            "WINDLASS_MAX_REQUESTS" => Some("2".to_owned()),
            _ => None,
        };
        let args = SettingArgs { listen: Some("127.0.0.1:1".into()), ..SettingArgs::default() };
        let config = Config::read(&args, &file, &environment).unwrap();
        assert_eq!(config.listen.port(), 1);
        assert_eq!((config.limits.requests, config.limits.polls), (2, 3));
        assert_eq!(config.drain, Duration::from_secs(30));
        let from = |name| config.shown.iter().find(|shown| shown.name == name).unwrap().from.clone();
        assert_eq!(from("listen"), "flag --listen");
        assert_eq!(from("max_requests"), "environment WINDLASS_MAX_REQUESTS");
        assert!(from("max_waiting").starts_with("file "));
        assert_eq!(from("drain"), "default");
        assert_eq!(config.shown.len(), DEFAULTS.len() - 1, "all but the store are shown");
    }

    #[test]
    fn what_cannot_be_meant_says_where_it_comes_from() {
        for (name, value, told) in [
            ("listen", "localhost", "environment WINDLASS_LISTEN"),
            ("max_requests", "0", "1 or more"),
            ("drain", "1w", "expected"),
            ("header_timeout", "0s", "100ms to 1d"),
            ("keep", "running=1d", "expected"),
            ("allow_origin", "example.org", "https://example.org"),
            ("tls_cert", "x.pem", "both needed"),
            ("rate_limit", "-1", "0 for no limit"),
            ("backup_every", "10ms", "1s to 3650d"),
            ("backup_keep", "0", "1 or more"),
        ] {
            let environment = |variable: &str| {
                (variable == format!("WINDLASS_{}", name.to_uppercase())).then(|| value.to_owned())
            };
            let refused = Config::read(&SettingArgs::default(), &File::default(), &environment).unwrap_err();
            assert!(refused.to_string().contains(told), "{name}: {refused}");
        }
    }

    #[test]
    fn a_file_with_other_things_is_refused() {
        assert!(file("lisen = 'x'").unwrap_err().to_string().contains("no setting \"lisen\""));
        assert!(file("listen =").unwrap_err().to_string().contains("windlass.toml"));
        let odd = file("listen = true").unwrap();
        let refused = Config::read(&SettingArgs::default(), &odd, &nothing).unwrap_err();
        assert!(refused.to_string().contains("a text, a number or a list"), "{refused}");
        assert!(File::read(Some(Path::new("/nowhere/x.toml"))).is_err());
    }
}
