//! Store addresses: `memory:`, `sqlite:PATH`, `postgres://…`, `http://…`.

use std::sync::Arc;

use windlass_core::Invalid;
use windlass_store::{Error, MemoryStore, Store};

/// Opens the store at `address`:
///
/// - `memory:` lives and dies with the process;
/// - `sqlite:PATH` is a file, made if it is not there. `sqlite:PATH?durability=normal` gives up the fsync of
///   every commit: the last acknowledged writes before a power cut may then be lost;
/// - `postgres://USER:PASSWORD@HOST/DATABASE` is a PostgreSQL database that many machines may share. After a
///   `?` may stand `schema` (`windlass` by default), `connections`, `sslmode`, `sslrootcert` and what libpq
///   knows;
/// - `http://HOST:PORT` and `https://HOST:PORT` are a Windlass server (`windlass serve`). Its token, if it
///   needs one, is read from the environment, `WINDLASS_TOKEN`, and so is the file of a private authority for
///   its certificate, `WINDLASS_CA_FILE`.
pub async fn open(address: &str) -> Result<Arc<dyn Store>, Error> {
    match address.split_once(':') {
        Some(("memory", "")) => Ok(Arc::new(MemoryStore::default())),
        #[cfg(feature = "sqlite")]
        Some(("sqlite", rest)) => open_sqlite(address, rest).await,
        #[cfg(feature = "postgres")]
        Some(("postgres" | "postgresql", _)) => {
            Ok(Arc::new(windlass_store::postgres::Options::new(address)?.open().await?))
        }
        #[cfg(not(feature = "postgres"))]
        Some(("postgres" | "postgresql", _)) => Err(Error::Unusable(
            "this program was built without PostgreSQL; build it with the feature `postgres` of windlass"
                .into(),
        )),
        #[cfg(feature = "remote")]
        Some(("http" | "https", _)) => open_remote(address).await,
        #[cfg(not(feature = "remote"))]
        Some(("http" | "https", _)) => Err(Error::Unusable(
            "this program was built without servers as stores; build it with the feature `remote` of windlass".into(),
        )),
        _ => Err(unknown(address)),
    }
}

#[cfg(feature = "remote")]
async fn open_remote(address: &str) -> Result<Arc<dyn Store>, Error> {
    let given = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let mut options = windlass_store::remote::Options::new(address)?;
    if let Some(token) = given("WINDLASS_TOKEN") {
        options = options.token(token);
    }
    if let Some(path) = given("WINDLASS_CA_FILE").filter(|_| address.starts_with("https:")) {
        options = options.ca_file(path);
    }
    Ok(Arc::new(options.open().await?))
}

#[cfg(feature = "sqlite")]
async fn open_sqlite(address: &str, rest: &str) -> Result<Arc<dyn Store>, Error> {
    use windlass_store::sqlite::{Durability, Options};

    let (path, durability) = match rest.split_once('?') {
        None => (rest, Durability::Full),
        Some((path, "durability=full")) => (path, Durability::Full),
        Some((path, "durability=normal")) => (path, Durability::Normal),
        Some(_) => return Err(unknown(address)),
    };
    if path.is_empty() {
        return Err(unknown(address));
    }
    let options = Options::new(path).durability(durability);
    // Opening a file may wait for another process that migrates it.
    let opened = tokio::task::spawn_blocking(move || options.open()).await;
    let store = opened.unwrap_or_else(|error| Err(Error::Unavailable(format!("opening failed: {error}"))))?;
    Ok(Arc::new(store))
}

fn unknown(address: &str) -> Error {
    let expected = "memory: or sqlite:PATH or sqlite:PATH?durability=normal, such as sqlite:windlass.db, or \
        postgres://USER:PASSWORD@HOST/DATABASE, or http://HOST:PORT";
    Invalid::new("store address", &shown(address), expected).into()
}

/// The address, without what might be a password.
fn shown(address: &str) -> String {
    #[cfg(feature = "postgres")]
    return windlass_store::postgres::without_password(address);
    #[cfg(not(feature = "postgres"))]
    match address.split_once("://") {
        Some((scheme, _)) => format!("{scheme}://…"),
        None => address.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn addresses_choose_the_store() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.db");
        let sqlite = format!("sqlite:{}", file.display());
        for good in ["memory:", &sqlite, &format!("{sqlite}?durability=normal")] {
            let store = open(good).await.unwrap();
            assert!(store.counts().await.unwrap().is_empty());
            store.close().await.unwrap();
        }
        assert!(file.exists());
    }

    #[cfg(feature = "remote")]
    #[tokio::test]
    async fn a_server_is_a_store() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", free.local_addr().unwrap());
        drop(free);
        let error = open(&url).await.unwrap_err();
        assert!(matches!(&error, Error::Unavailable(why) if why.contains(&url)), "{error}");
        for bad in ["http:", "http://", "https://x y", "http://ada:s3cret@x"] {
            let error = open(bad).await.unwrap_err();
            assert!(error.rejected().is_some() && !error.to_string().contains("s3cret"), "{error}");
        }
    }

    #[tokio::test]
    async fn other_addresses_are_refused_and_make_no_file() {
        for bad in ["", "memory", "memory:x", "sqlite:", "sqlite:a.db?sync=off", "mysql://x"] {
            let error = open(bad).await.unwrap_err();
            assert!(error.to_string().contains("sqlite:PATH"), "{error}");
        }
        assert!(!std::path::Path::new("a.db").exists());
    }
}
