//! TLS to PostgreSQL: all connections use it, and only a server whose certificate can be trusted is spoken
//! to.
#![cfg(unix)]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, missing_docs)]

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use tempfile::TempDir;
use tokio::time::timeout;
use windlass_core::{Json, Name, NewTask};
use windlass_store::conformance::{KIND, id};
use windlass_store::{Error, PostgresStore, Reads, Store, Writes};
use windlass_testbed::postgres::{Mode, Server};

/// Longer than anything here takes, so that a test which waits in vain fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server with a certificate for 127.0.0.1, and the authority that signed it.
struct Bed {
    server: Server,
    place: TempDir,
}

/// The one of this process.
fn bed() -> &'static Bed {
    static BED: OnceLock<Bed> = OnceLock::new();
    BED.get_or_init(|| {
        let (place, server) = (tempfile::tempdir().unwrap(), Server::start().unwrap());
        let authority = authority("the authority of this test");
        fs::write(place.path().join("authority.pem"), authority.pem()).unwrap();
        fs::write(place.path().join("other.pem"), self::authority("another authority").pem()).unwrap();
        fs::write(place.path().join("empty.pem"), "").unwrap();
        let key = KeyPair::generate().unwrap();
        let mut certificate = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        certificate.distinguished_name.push(DnType::CommonName, "the server");
        let certificate = certificate.signed_by(&key, &authority).unwrap();
        // The server refuses a key that is not its own or that others may read.
        let data = PathBuf::from(server.sql("SHOW data_directory").unwrap());
        install(&data, "server.crt", &certificate.pem());
        install(&data, "server.key", &key.serialize_pem());
        if let Err(error) = server.sql("ALTER SYSTEM SET ssl = on") {
            let version = server.version();
            panic!(
                "PostgreSQL {version} cannot speak TLS ({error}): install one that can, such as the Debian package `postgresql`, \
                 and let WINDLASS_POSTGRES_BIN name the directory of its programs"
            );
        }
        server.stop(Mode::Fast).unwrap();
        server.start_again().unwrap();
        assert_eq!(server.sql("SHOW ssl").unwrap(), "on");
        Bed { server, place }
    })
}

fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A file of the server's own account.
fn install(data: &Path, name: &str, text: &str) {
    let (path, owner) = (data.join(name), fs::metadata(data).unwrap());
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    chown(&path, Some(owner.uid()), Some(owner.gid())).unwrap();
}

impl Bed {
    /// Settings of the address: the schema, which also names the connections, and more.
    fn url(&self, schema: &str, more: &str) -> String {
        format!("{}?schema={schema}&application_name={schema}{more}", self.server.url())
    }

    fn trusting(&self, file: &str) -> String {
        format!("&sslrootcert={}", self.place.path().join(file).display())
    }

    /// How many connections of a store are encrypted, and how many are not.
    fn connections(&self, schema: &str) -> (usize, usize) {
        let counted = self.server.sql(&format!(
            "SELECT count(*) FILTER (WHERE ssl), count(*) FILTER (WHERE NOT ssl) \
             FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = '{schema}'"
        ));
        let counted = counted.unwrap();
        let (encrypted, plain) = counted.split_once('|').unwrap();
        (encrypted.parse().unwrap(), plain.parse().unwrap())
    }

    async fn refusal(&self, url: &str) -> String {
        match PostgresStore::open(url).await {
            Err(Error::Unavailable(why) | Error::Unusable(why)) => why,
            Err(other) => panic!("another error: {other}"),
            Ok(_) => panic!("{url} was opened"),
        }
    }
}

fn task(n: u64) -> NewTask {
    NewTask::new(id(n), Name::kind(KIND).unwrap(), Json::default())
}

#[tokio::test]
async fn every_connection_is_encrypted_and_so_is_the_one_that_listens() {
    let bed = bed();
    for (schema, mode) in
        [("required", "require"), ("ca_verified", "verify-ca"), ("all_verified", "verify-full")]
    {
        let more = format!("&sslmode={mode}{}", bed.trusting("authority.pem"));
        let store = PostgresStore::open(&bed.url(schema, &more)).await.unwrap();
        let told = store.describe().await.unwrap();
        assert!(told.contains(&("wake-up".into(), "notifications".into())), "{mode}: {told:?}");
        // The one that listens is among them, for notifications arrive.
        let (encrypted, plain) = bed.connections(schema);
        assert!(encrypted >= 2 && plain == 0, "{mode}: {encrypted} encrypted, {plain} not");
        store.close().await.unwrap();
    }
}

/// Without a word about TLS it is used where the server has it.
#[tokio::test]
async fn what_one_submits_over_tls_wakes_another() {
    let bed = bed();
    let url = bed.url("woken", &bed.trusting("authority.pem"));
    let (one, other) = (PostgresStore::open(&url).await.unwrap(), PostgresStore::open(&url).await.unwrap());
    let mut bells = other.watch();
    let before = bells.borrow_and_update().claimable;
    assert!(one.submit(vec![task(1)]).await.unwrap()[0].created);
    let rung = timeout(PATIENCE, bells.wait_for(|bells| bells.claimable > before)).await;
    assert!(rung.expect("it is woken").is_ok());
    assert!(other.task(id(1)).await.unwrap().is_some());
    assert_eq!(bed.connections("woken").1, 0);
}

#[tokio::test]
async fn an_unknown_authority_is_refused_with_what_to_do() {
    let bed = bed();
    for more in ["", "&sslmode=prefer", "&sslmode=require", "&sslmode=verify-full"] {
        let why = bed.refusal(&bed.url("unknown", more)).await;
        for word in ["UnknownIssuer", "no public authority", "sslrootcert=FILE", "sslmode=disable"] {
            assert!(why.contains(word), "{more}: {word} is missing: {why}");
        }
    }
    let why = bed.refusal(&bed.url("unknown", &bed.trusting("other.pem"))).await;
    assert!(why.contains("nor the one of sslrootcert") && why.contains("sslmode=disable"), "{why}");
    assert_eq!(bed.connections("unknown"), (0, 0), "nothing was said to it");
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let bed = bed();
    let more = format!("&sslmode=require&hostaddr=127.0.0.1{}", bed.trusting("authority.pem"));
    let url = bed.url("elsewhere", &more).replace("@127.0.0.1:", "@elsewhere.test:");
    let why = bed.refusal(&url).await;
    assert!(why.contains("elsewhere.test") && why.contains("for another name"), "{why}");
    // `verify-ca` does not ask for less here than `verify-full`.
    let why = bed.refusal(&url.replace("sslmode=require", "sslmode=verify-ca")).await;
    assert!(why.contains("for another name"), "{why}");
}

#[tokio::test]
async fn an_authority_that_cannot_be_read_is_an_error() {
    let bed = bed();
    let why = bed.refusal(&bed.url("unread", &bed.trusting("absent.pem"))).await;
    assert!(why.contains("absent.pem"), "{why}");
    let why = bed.refusal(&bed.url("unread", &bed.trusting("empty.pem"))).await;
    assert!(why.contains("empty.pem") && why.contains("holds no certificate"), "{why}");
}

#[tokio::test]
async fn without_tls_is_what_one_has_to_ask_for() {
    let bed = bed();
    let store = PostgresStore::open(&bed.url("plain", "&sslmode=disable")).await.unwrap();
    assert!(store.submit(vec![task(1)]).await.unwrap()[0].created);
    let (encrypted, plain) = bed.connections("plain");
    assert!(encrypted == 0 && plain >= 2, "{encrypted} encrypted, {plain} not");
    store.close().await.unwrap();
}

/// A server without TLS is not spoken to where it is required.
#[tokio::test]
async fn a_server_without_tls_is_refused_where_it_is_required() {
    let server = windlass_testbed::postgres::shared();
    let open = PostgresStore::open(&format!("{}?sslmode=verify-full", server.url())).await;
    let Err(Error::Unavailable(why)) = open else { panic!("{open:?}") };
    assert!(why.contains("TLS"), "{why}");
}
