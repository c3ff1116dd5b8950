//! Store addresses: what can be told from one without opening it, and how one is shown: never with its
//! password.

use std::path::Path;

use windlass::{Error, Invalid, Rejected};
use windlass_store::postgres::Options;
pub(crate) use windlass_store::postgres::without_password;

/// What stands after the `?` for Windlass alone; the rest is the driver's.
const OURS: [&str; 3] = ["schema", "connections", "sslrootcert"];

/// The file of a `sqlite:` address.
pub(crate) fn sqlite_path(address: &str) -> Option<&Path> {
    let rest = address.strip_prefix("sqlite:")?;
    let path = rest.split_once('?').map_or(rest, |(path, _)| path);
    Some(Path::new(path)).filter(|_| !path.is_empty())
}

/// Whether it is a PostgreSQL database, or meant to be one.
pub(crate) fn is_postgres(address: &str) -> bool {
    matches!(address.split_once(':'), Some(("postgres" | "postgresql", _)))
}

/// The same database with these settings after the `?` instead of those of the same names.
pub(crate) fn with_settings(address: &str, settings: &[(&str, &str)]) -> String {
    let is_kept = |name: &str| settings.iter().all(|(other, _)| *other != name);
    let given = settings.iter().map(|(name, value)| format!("{name}={value}"));
    rewritten(address, is_kept, given)
}

/// The address as the driver knows it.
pub(crate) fn for_driver(address: &str) -> String {
    rewritten(address, |name| !OURS.contains(&name), std::iter::empty())
}

fn rewritten(address: &str, keep: impl Fn(&str) -> bool, more: impl Iterator<Item = String>) -> String {
    let (place, settings) = address.split_once('?').unwrap_or((address, ""));
    let name = |setting: &str| setting.split_once('=').map_or(setting, |(name, _)| name).to_owned();
    let kept = settings.split('&').filter(|setting| !setting.is_empty() && keep(&name(setting)));
    let settings: Vec<String> = kept.map(str::to_owned).chain(more).collect();
    if settings.is_empty() { place.into() } else { format!("{place}?{}", settings.join("&")) }
}

/// What went wrong on opening a store, without the password.
pub(crate) fn hiding(address: &str, error: Error) -> Error {
    let shown = without_password(address);
    let expected = match error.rejected() {
        Some(Rejected::Invalid(Invalid { field, expected, .. }))
            if field == "store address" && shown != address =>
        {
            expected.clone()
        }
        _ => return error,
    };
    if !is_postgres(&shown) {
        return Invalid::new("store address", &shown, expected).into();
    }
    // A caller without the password cannot quote it.
    match Options::new(&shown) {
        Err(error) => error,
        Ok(_) => {
            let expected = "a password in which what means something in an address is written like %40 for @ or %3A for :";
            Invalid::new("store address", &shown, expected).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_files_name_a_file() {
        assert_eq!(sqlite_path("sqlite:a b.db"), Some(Path::new("a b.db")));
        assert_eq!(sqlite_path("sqlite:a.db?durability=normal"), Some(Path::new("a.db")));
        for other in ["memory:", "sqlite:", "sqlite:?durability=full", "a.db", "postgres://x"] {
            assert_eq!(sqlite_path(other), None, "{other}");
        }
    }

    #[test]
    fn settings_are_replaced() {
        let address = "postgres://ada:x@db/app?schema=a&sslmode=require&connections=3";
        assert_eq!(
            with_settings(address, &[("schema", "b")]),
            "postgres://ada:x@db/app?sslmode=require&connections=3&schema=b"
        );
        assert_eq!(with_settings("postgres://db", &[("schema", "b")]), "postgres://db?schema=b");
        assert_eq!(for_driver(address), "postgres://ada:x@db/app?sslmode=require");
        assert_eq!(for_driver("postgres://db?schema=a"), "postgres://db");
    }
}
