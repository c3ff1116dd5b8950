//! Addresses, TLS and the pool of connections.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{
    Manager, ManagerConfig, Pool, PoolError, QueueMode, RecyclingMethod, Runtime, Timeouts,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tokio_postgres::Config;
use tokio_postgres_rustls::MakeRustlsConnect;
use windlass_core::Invalid;

use super::failure::words;
use super::libpq::{self, Variables};
use crate::error::{Error, Result};

/// The schema of a Windlass; several may live in one database, each in its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schema(String);

impl Schema {
    /// Lower-case letters, digits and `_`, beginning with a letter; at most 48, so that names made from it
    /// fit.
    pub fn new(name: &str) -> Result<Self, Invalid> {
        let is_fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if !name.bytes().all(is_fine)
            || !name.starts_with(|c: char| c.is_ascii_lowercase())
            || name.len() > 48
            || name.starts_with("pg_")
        {
            let expected = "1 to 48 of a-z, 0-9 and _, beginning with a letter, not with pg_";
            return Err(Invalid::new("schema", name, expected));
        }
        Ok(Self(name.into()))
    }

    /// A number of its own for advisory locks.
    pub(super) fn salt(&self) -> i64 {
        let hash = self.0.bytes().fold(0x7769_6e64_6c61_7373_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        hash.cast_signed()
    }

    /// What the names of the documents' schemas begin with: nothing for the default, so that these have their
    /// own names.
    pub(super) fn prefix(&self) -> String {
        if *self == Self::default() { String::new() } else { format!("{}_", self.0) }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Schema {
    fn default() -> Self {
        Self("windlass".into())
    }
}

/// As it stands in a statement: quoted, for it may be a word of SQL.
impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0)
    }
}

/// Where a Windlass is: what `postgres://user:password@host/database?schema=windlass&sslrootcert=ca.pem`
/// says.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) config: Config,
    pub(super) schema: Schema,
    pub(super) connections: Option<usize>,
    root_certificate: Option<String>,
    /// Why a password file that is there was not used.
    ignored: Option<String>,
}

/// Without the password.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// For people: hosts, database and schema, and no password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<String> = self
            .config
            .get_hosts()
            .iter()
            .enumerate()
            .map(|(at, host)| {
                let ports = self.config.get_ports();
                let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
                match host {
                    tokio_postgres::config::Host::Tcp(name) => format!("{name}:{port}"),
                    #[cfg(unix)]
                    tokio_postgres::config::Host::Unix(path) => format!("{}:{port}", path.display()),
                }
            })
            .collect();
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        write!(f, "postgres://{}/{database}?schema={}", hosts.join(","), self.schema.as_str())
    }
}

impl FromStr for Address {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        Self::read(text, &libpq::variable)
    }
}

impl Address {
    /// What an address says and, where it says nothing, what the variables of libpq say.
    fn read(text: &str, variables: Variables<'_>) -> Result<Self> {
        let (mut schema, mut root_certificate, mut connections) = (Schema::default(), None, None);
        let mut passfile = None;
        let (place, settings) = text.split_once('?').unwrap_or((text, ""));
        let mut left = Vec::new();
        for setting in settings.split('&').filter(|setting| !setting.is_empty()) {
            match setting.split_once('=') {
                Some(("schema", name)) => schema = Schema::new(name)?,
                Some(("sslrootcert", path)) => root_certificate = Some(path.to_owned()),
                Some(("passfile", path)) => passfile = Some(path),
                Some(("connections", number)) => {
                    let fits = number.parse().ok().filter(|number| (1..=1000).contains(number));
                    let expected = "the most connections to hold, 1 to 1000";
                    connections = Some(fits.ok_or_else(|| Invalid::new("connections", number, expected))?);
                }
                _ => left.push(known_to_driver(setting)),
            }
        }
        let place = libpq::with_port(place, variables);
        let place = if left.is_empty() { place } else { format!("{place}?{}", left.join("&")) };
        let expected = "postgres://USER:PASSWORD@HOST:PORT/DATABASE, and after a ? schema, connections, sslmode, \
            sslrootcert and what libpq knows";
        let mut config: Config = place.parse().map_err(|error: tokio_postgres::Error| {
            let why = std::error::Error::source(&error).map(|why| format!(" ({why})")).unwrap_or_default();
            Error::from(Invalid::new("store address", &without_password(text), format!("{expected}{why}")))
        })?;
        libpq::fill(&mut config, variables)?;
        if !text.contains("sslmode=")
            && let Some(mode) = libpq::ssl_mode(variables)?
        {
            config.ssl_mode(mode);
        }
        let ignored = libpq::fill_password(&mut config, passfile, variables);
        if let Some(why) = &ignored {
            tracing::warn!("{why}");
        }
        // The public authorities are always among those that are trusted.
        let root_certificate =
            root_certificate.or_else(|| variables("PGSSLROOTCERT")).filter(|path| path != "system");
        if config.get_application_name().is_none() {
            config.application_name("windlass");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(10));
        }
        config.keepalives_idle(Duration::from_secs(30)).tcp_user_timeout(Duration::from_secs(30));
        Ok(Self { config, schema, connections, root_certificate, ignored })
    }
}

/// An address that may be shown. Whatever could be a password is left out, in addresses that are not quite
/// right as well, and addresses of other stores stay as they are.
#[must_use]
pub fn without_password(address: &str) -> String {
    if address.starts_with("sqlite:") || address.starts_with("memory:") {
        return address.into();
    }
    let marked = ["://", ":/"].iter().find_map(|mark| address.find(mark).map(|at| at + mark.len()));
    let (scheme, rest) = address.split_at(marked.unwrap_or(0));
    let shown = match rest.rsplit_once('@') {
        Some((who, place)) => {
            let (user, password) = who.split_once(':').unwrap_or((who, ""));
            // Without slashes it is anybody's guess which word is what.
            let gap = if marked.is_none() && !password.is_empty() { ":…" } else { "" };
            format!("{user}{gap}@{place}")
        }
        None => {
            let end = rest.find(['/', '?']).unwrap_or(rest.len());
            let hosts: Vec<String> = rest[..end].split(',').map(without_word).collect();
            format!("{}{}", hosts.join(","), &rest[end..])
        }
    };
    format!("{scheme}{}", without_setting(&shown))
}

/// A host without what stands where its port should, unless that is a number: somebody forgot the `@`.
fn without_word(host: &str) -> String {
    match host.split_once(':') {
        Some((name, port)) if !host.starts_with('[') && port.bytes().any(|byte| !byte.is_ascii_digit()) => {
            format!("{name}:…")
        }
        _ => host.into(),
    }
}

/// `password=…` among the settings.
fn without_setting(text: &str) -> String {
    let mark = "password=";
    let mut parts = text.split(mark);
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // Among words and not in an address, a value may stand in quotes; one that has no end hides all the
        // rest.
        let end = match part.strip_prefix('\'') {
            Some(quoted) => quoted.rfind('\'').map(|at| at + 2),
            None => part.find(['&', ' ']),
        };
        shown += &format!("{mark}…{}", &part[end.unwrap_or(part.len())..]);
    }
    shown
}

/// What the driver is told about TLS. It does not know the modes that verify certificates; here all do that
/// use TLS.
fn known_to_driver(setting: &str) -> &str {
    match setting {
        "sslmode=verify-ca" | "sslmode=verify-full" => "sslmode=require",
        other => other,
    }
}

impl Address {
    /// How to speak TLS: the server must be who it says, by the public authorities or the one that
    /// `sslrootcert` names.
    pub(super) fn tls(&self) -> Result<MakeRustlsConnect> {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        if let Some(path) = &self.root_certificate {
            let unusable =
                |why: String| Error::Unusable(format!("sslrootcert {path:?} cannot be used: {why}"));
            let mut text = Vec::new();
            let read = File::open(path).and_then(|mut file| file.read_to_end(&mut text));
            read.map_err(|error| unusable(error.to_string()))?;
            let public = roots.len();
            for certificate in CertificateDer::pem_slice_iter(&text) {
                let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
                roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
            }
            if roots.len() == public {
                return Err(unusable("it holds no certificate in PEM form".into()));
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Unusable(format!("TLS cannot be used: {error}")))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(MakeRustlsConnect::new(config))
    }

    /// What to say when no connection could be made.
    pub(super) fn unreachable(&self, error: PoolError) -> Error {
        match error {
            PoolError::Closed => Error::Closed,
            PoolError::Backend(error) => {
                let mut advice = untrusted(&error).map(|why| self.advice(why)).unwrap_or_default();
                if let Some(why) = &self.ignored {
                    advice += &format!("; {why}");
                }
                Error::Unavailable(format!("{self} cannot be reached: {}{advice}", words(&error)))
            }
            PoolError::Timeout(_) => Error::Unavailable(format!("no connection to {self} was free in time")),
            error => Error::Unavailable(format!("{self} cannot be reached: {error}")),
        }
    }

    /// What to do about a certificate that is not accepted.
    fn advice(&self, why: &CertificateError) -> String {
        let check = match why {
            CertificateError::UnknownIssuer => match &self.root_certificate {
                None => {
                    "; no public authority signed the server's certificate: name the file of the one that did, \
                     sslrootcert=FILE,"
                }
                Some(_) => {
                    "; neither a public authority nor the one of sslrootcert signed the server's certificate: name \
                     the file of the one that did, sslrootcert=FILE,"
                }
            },
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "; the server's certificate is for another name: use a host's name that it is for"
            }
            _ => "; give the server a certificate that is valid",
        };
        format!("{check} or do without TLS where the network is trusted, sslmode=disable")
    }

    /// A pool of at most `size` connections, made when they are needed.
    pub(super) fn pool(&self, size: usize) -> Result<Pool> {
        let how = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let wait = Some(Duration::from_secs(10));
        let manager = Manager::from_config(self.config.clone(), self.tls()?, how);
        let pool = Pool::builder(manager)
            .max_size(size)
            // The one that was used last has everything at hand.
            .queue_mode(QueueMode::Lifo)
            .runtime(Runtime::Tokio1)
            .timeouts(Timeouts { wait, create: wait, recycle: wait })
            .build();
        pool.map_err(|error| Error::Unusable(error.to_string()))
    }
}

/// What is wrong with the server's certificate, if that is what went wrong.
fn untrusted(error: &tokio_postgres::Error) -> Option<&CertificateError> {
    let io = std::error::Error::source(error)?.downcast_ref::<std::io::Error>()?;
    match io.get_ref()?.downcast_ref::<rustls::Error>()? {
        rustls::Error::InvalidCertificate(why) => Some(why),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use tokio_postgres::config::SslMode;

    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        for (address, shown) in [
            ("postgres://ada:s3cret@db/app", "postgres://ada@db/app"),
            ("postgresql://ada:s3cret@db:5432/app?schema=a", "postgresql://ada@db:5432/app?schema=a"),
            ("postgres://ada:s3@c/r?et@db/app", "postgres://ada@db/app"),
            ("postgres://:s3cret@db", "postgres://@db"),
            ("postgres://ada@db?password=s3cret&schema=a", "postgres://ada@db?password=…&schema=a"),
            ("postgres://db?password=s3:cr@et&schema=a", "postgres://db?password=…&schema=a"),
            ("postgres://ada:s3cret", "postgres://ada:…"),
            ("postgres://ada:s3cret/app", "postgres://ada:…/app"),
            ("postgres:/ada:s3cret@db/app", "postgres:/ada@db/app"),
            ("postgres:ada:s3cret@db/app", "postgres:…@db/app"),
            ("postgres:s3cret@db/app", "postgres:…@db/app"),
            ("postgress://ada:s3cret@db/app", "postgress://ada@db/app"),
            ("ada:s3cret@db/app", "ada:…@db/app"),
            ("host=db user=ada password=s3cret dbname=app", "host=db user=ada password=… dbname=app"),
            ("host=db password='s3 \\'cret' dbname=app", "host=db password=… dbname=app"),
            ("host=db password='s3 cret dbname=app", "host=db password=…"),
            // Nothing to hide.
            ("postgres://ada@db:5432,other:5433/app", "postgres://ada@db:5432,other:5433/app"),
            ("postgres://[::1]:5432/app", "postgres://[::1]:5432/app"),
            ("sqlite:a:b@c.db", "sqlite:a:b@c.db"),
            ("memory:", "memory:"),
        ] {
            assert_eq!(without_password(address), shown, "{address}");
        }
    }

    #[test]
    fn an_address_that_is_refused_is_quoted_without_its_password() {
        for address in [
            "postgres://ada:s3cret@db:many/app",
            "postgres://ada@db:many/app?password=s3cret",
            "postgres:/ada:s3cret@db/app",
            "postgres://ada:s3cret",
        ] {
            let said = address.parse::<Address>().map(drop).unwrap_err().to_string();
            assert!(said.contains("ada") && !said.contains("s3cret"), "{said}");
        }
    }

    #[test]
    fn variables_of_libpq_say_what_the_address_leaves_out() {
        let set = [
            ("PGHOST", "one,other"),
            ("PGPORT", "6000,6001"),
            ("PGUSER", "ada"),
            ("PGDATABASE", "app"),
            ("PGPASSWORD", "s3cret"),
            ("PGSSLMODE", "verify-full"),
            ("PGSSLROOTCERT", "ca.pem"),
        ];
        let variables =
            |name: &str| set.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned());
        let told = |text: &str| {
            let address = Address::read(text, &variables).unwrap();
            let config = &address.config;
            let password = String::from_utf8(config.get_password().unwrap().to_vec()).unwrap();
            (
                format!("{} {} {password}", config.get_user().unwrap(), address),
                config.get_ssl_mode(),
                address.root_certificate,
            )
        };
        assert_eq!(
            told("postgres://"),
            (
                "ada postgres://one:6000,other:6001/app?schema=windlass s3cret".into(),
                SslMode::Require,
                Some("ca.pem".into())
            )
        );
        assert_eq!(
            told("postgres://eve:x@db:1/b?sslmode=disable&sslrootcert=b.pem&schema=c"),
            ("eve postgres://db:1/b?schema=c x".into(), SslMode::Disable, Some("b.pem".into()))
        );
        let wrong = |name: &str| (name == "PGSSLMODE").then(|| "yes".to_owned());
        let said = Address::read("postgres://db", &wrong).map(drop).unwrap_err().to_string();
        assert!(said.contains("PGSSLMODE") && said.contains("verify-full"), "{said}");
    }

    #[test]
    fn modes_that_verify_are_the_one_that_requires_tls() {
        for (mode, meant) in [
            ("disable", SslMode::Disable),
            ("prefer", SslMode::Prefer),
            ("require", SslMode::Require),
            ("verify-ca", SslMode::Require),
            ("verify-full", SslMode::Require),
        ] {
            let address: Address = format!("postgres://db/app?sslmode={mode}&schema=a").parse().unwrap();
            assert_eq!((address.config.get_ssl_mode(), address.schema.as_str()), (meant, "a"), "{mode}");
        }
        let said = "postgres://db?sslmode=verify".parse::<Address>().map(drop).unwrap_err().to_string();
        assert!(said.contains("sslmode"), "{said}");
    }
}
