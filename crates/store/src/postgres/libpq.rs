//! What users of libpq expect to be read when an address leaves it out: the variables `PGHOST`, `PGPORT`,
//! `PGUSER`, `PGDATABASE`, `PGPASSWORD`, `PGSSLMODE` and `PGSSLROOTCERT`, and the password file
//! (`PGPASSFILE`, or `~/.pgpass`).

use std::path::{Path, PathBuf};

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use windlass_core::Invalid;

/// Where variables are looked up: the process's own, or a test's.
pub(super) type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The variables of this process. An empty one counts as not set, as in libpq.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The address with the port of `PGPORT`, if it names one host and no port. The driver takes the usual port
/// otherwise, and does not say so.
pub(super) fn with_port(place: &str, variables: Variables<'_>) -> String {
    let Some((scheme, rest)) = place.split_once("://") else { return place.to_owned() };
    let start = rest.find('@').map_or(0, |at| at + 1);
    let end = rest[start..].find('/').map_or(rest.len(), |at| start + at);
    let host = &rest[start..end];
    let name = host.rsplit_once(']').map_or(host, |(_, after)| after);
    match variables("PGPORT") {
        Some(port) if !host.is_empty() && !host.contains(',') && !name.contains(':') => {
            format!("{scheme}://{}:{port}{}", &rest[..end], &rest[end..])
        }
        _ => place.to_owned(),
    }
}

/// Fills in host, user and database.
pub(super) fn fill(config: &mut Config, variables: Variables<'_>) -> Result<(), Invalid> {
    if config.get_hosts().is_empty()
        && config.get_hostaddrs().is_empty()
        && let Some(hosts) = variables("PGHOST")
    {
        for host in hosts.split(',') {
            config.host(host);
        }
        if config.get_ports().is_empty()
            && let Some(ports) = variables("PGPORT")
        {
            for port in ports.split(',') {
                let expected = "a port, 1 to 65535";
                config.port(port.parse().map_err(|_| Invalid::new("PGPORT", port, expected))?);
            }
        }
    }
    if config.get_user().is_none()
        && let Some(user) = variables("PGUSER")
    {
        config.user(user);
    }
    if config.get_dbname().is_none()
        && let Some(database) = variables("PGDATABASE")
    {
        config.dbname(database);
    }
    Ok(())
}

/// The mode of `PGSSLMODE`. All that use TLS verify the server here.
pub(super) fn ssl_mode(variables: Variables<'_>) -> Result<Option<SslMode>, Invalid> {
    let Some(mode) = variables("PGSSLMODE") else { return Ok(None) };
    match &*mode {
        "disable" => Ok(Some(SslMode::Disable)),
        "allow" | "prefer" => Ok(Some(SslMode::Prefer)),
        "require" | "verify-ca" | "verify-full" => Ok(Some(SslMode::Require)),
        _ => {
            let expected = "disable, allow, prefer, require, verify-ca or verify-full";
            Err(Invalid::new("PGSSLMODE", &mode, expected))
        }
    }
}

/// Fills in the password, if there is none: from `PGPASSWORD`, or else from the password file. Says why a
/// file that is there was not read.
pub(super) fn fill_password(
    config: &mut Config,
    passfile: Option<&str>,
    variables: Variables<'_>,
) -> Option<String> {
    if config.get_password().is_some_and(|password| !password.is_empty()) {
        return None;
    }
    if let Some(password) = variables("PGPASSWORD") {
        config.password(password);
        return None;
    }
    let named = passfile.map(str::to_owned).or_else(|| variables("PGPASSFILE")).map(PathBuf::from);
    let path = named.or_else(|| variables("HOME").map(|home| Path::new(&home).join(".pgpass")))?;
    let text = match read(&path) {
        Ok(text) => text?,
        Err(why) => return Some(format!("the password file {} is not used: {why}", path.display())),
    };
    let user = config.get_user().map(str::to_owned).or_else(|| variables("USER")).unwrap_or_default();
    let database = config.get_dbname().unwrap_or(&user).to_owned();
    let found = servers(config)
        .iter()
        .find_map(|(host, port)| password(&text, [host, &port.to_string(), &database, &user]));
    if let Some(password) = found {
        config.password(password);
    }
    None
}

/// The text of a password file; `None` if there is none. One that others can read is refused, as libpq does.
fn read(path: &Path) -> Result<Option<String>, String> {
    let Ok(file) = std::fs::metadata(path) else { return Ok(None) };
    if !file.is_file() {
        return Err("it is not a plain file".into());
    }
    #[cfg(unix)]
    if std::os::unix::fs::PermissionsExt::mode(&file.permissions()) & 0o077 != 0 {
        return Err("others can read it; chmod 600 it".into());
    }
    std::fs::read_to_string(path).map(Some).map_err(|error| error.to_string())
}

/// Hosts and ports as a password file names them.
fn servers(config: &Config) -> Vec<(String, u16)> {
    let ports = config.get_ports();
    let named = |(at, host): (usize, &Host)| {
        let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
        let name = match host {
            Host::Tcp(name) => name.clone(),
            // libpq calls the usual sockets so.
            #[cfg(unix)]
            Host::Unix(path) if ["/tmp", "/var/run/postgresql"].contains(&&*path.to_string_lossy()) => {
                "localhost".into()
            }
            #[cfg(unix)]
            Host::Unix(path) => path.to_string_lossy().into_owned(),
        };
        (name, port)
    };
    config.get_hosts().iter().enumerate().map(named).collect()
}

/// The password of the first line that is for a host, port, database and user. A `*` is for all.
fn password(text: &str, wanted: [&str; 4]) -> Option<String> {
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = fields(line);
        let [host, port, database, user, password] = fields.as_slice() else { return None };
        let is_for = [host, port, database, user]
            .iter()
            .zip(wanted)
            .all(|(field, value)| *field == "*" || *field == value);
        (is_for && !password.is_empty()).then(|| password.clone())
    })
}

/// The five fields of a line, `\:` and `\\` undone. A further colon ends the password.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        let literal = match character {
            ':' if fields.len() == 5 => break,
            ':' => {
                fields.push(String::new());
                continue;
            }
            '\\' => characters.next(),
            other => Some(other),
        };
        if let Some(last) = fields.last_mut() {
            last.extend(literal);
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_file_is_read_line_by_line() {
        let text = "# db:5432:app:ada:no\ndb:5432:app:ada:one\ndb:*:*:ada:two:more\n*:*:app:b\\:ob:a\\\\b\\:c\nbad\n*:*:*:eve:\n*:*:*:eve:x";
        for (wanted, found) in [
            (["db", "5432", "app", "ada"], Some("one")),
            (["db", "5433", "other", "ada"], Some("two")),
            (["elsewhere", "1", "app", "b:ob"], Some("a\\b:c")),
            (["elsewhere", "1", "app", "ada"], None),
            (["db", "1", "app", "eve"], Some("x")),
        ] {
            assert_eq!(password(text, wanted).as_deref(), found, "{wanted:?}");
        }
    }

    #[test]
    fn a_port_is_added_where_there_is_none() {
        let variables = |name: &str| (name == "PGPORT").then(|| "6000".to_owned());
        for (place, meant) in [
            ("postgres://ada:x@db/app", "postgres://ada:x@db:6000/app"),
            ("postgres://db", "postgres://db:6000"),
            ("postgres://[::1]/app", "postgres://[::1]:6000/app"),
            ("postgres://db:1/app", "postgres://db:1/app"),
            ("postgres://[::1]:1/app", "postgres://[::1]:1/app"),
            ("postgres://one,other/app", "postgres://one,other/app"),
            ("postgres:///app", "postgres:///app"),
            ("host=db user=ada", "host=db user=ada"),
        ] {
            assert_eq!(with_port(place, &variables), meant);
        }
    }
}
