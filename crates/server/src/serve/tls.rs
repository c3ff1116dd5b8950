//! The certificate of a server, read again when its files change.
//!
//! Certificates are renewed every few weeks by programs that know nothing of this one. So the files are
//! looked at every second, and a new certificate is used from the next handshake on. Connections that are
//! open go on. One that cannot be used is told once, and the one before it stays.

use std::fmt;
use std::fs::metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// TLS of a server.
#[derive(Clone)]
pub(super) struct Tls {
    pub(super) acceptor: TlsAcceptor,
    files: Arc<Files>,
    current: Arc<Current>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

/// The certificate that is shown to clients.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// Where the certificate and its key are.
#[derive(Debug)]
struct Files {
    cert: PathBuf,
    key: PathBuf,
}

/// What tells a file from the one that was there before.
type Stamp = Option<(u64, u64, i64, i64)>;

impl Files {
    fn read(&self, provider: &CryptoProvider) -> Result<CertifiedKey> {
        let named = |path: &Path| format!("TLS: {}", path.display());
        let certs = CertificateDer::pem_file_iter(&self.cert)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .with_context(|| named(&self.cert))?;
        anyhow::ensure!(!certs.is_empty(), "{}: it holds no certificate in PEM form", named(&self.cert));
        let key = PrivateKeyDer::from_pem_file(&self.key).with_context(|| named(&self.key))?;
        CertifiedKey::from_der(certs, key, provider).with_context(|| named(&self.cert))
    }

    fn stamps(&self) -> [Stamp; 2] {
        [&self.cert, &self.key].map(|path| {
            // A link is followed: it is often what is changed.
            let file = metadata(path).ok()?;
            Some((file.ino(), file.size(), file.ctime(), file.ctime_nsec()))
        })
    }
}

impl Tls {
    pub(super) fn read(cert: &Path, key: &Path) -> Result<Self> {
        let provider = Arc::new(ring::default_provider());
        let files = Arc::new(Files { cert: cert.into(), key: key.into() });
        let current = Arc::new(Current(RwLock::new(Arc::new(files.read(&provider)?))));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(current.clone());
        // One request at a time, so that one who dawdles can be told from one who is busy: in HTTP/2 a peer
        // that answers pings may leave its requests, and the answers to them, unfinished for ever.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), files, current })
    }

    /// Looks at the files until `stop`, and uses what is new.
    pub(super) async fn follow(self, stop: CancellationToken) {
        // What was there when the files were last read is not known to the moment: they are read once more.
        let (mut used, mut seen) = ([None; 2], [None; 2]);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = sleep(LOOK) => {}
            }
            let files = self.files.clone();
            let Ok(stamps) = spawn_blocking(move || files.stamps()).await else { continue };
            // The two files are not written in one moment: they are read when they have rested.
            let has_rested = std::mem::replace(&mut seen, stamps) == stamps;
            if has_rested && stamps != used {
                used = stamps;
                self.read_again().await;
            }
        }
    }

    async fn read_again(&self) {
        let files = self.files.clone();
        let read = spawn_blocking(move || files.read(&ring::default_provider())).await;
        match read {
            Ok(Ok(new)) => {
                let mut current = self.current.0.write().unwrap_or_else(PoisonError::into_inner);
                if current.cert != new.cert {
                    info!(file = %self.files.cert.display(), "a new TLS certificate is used from now on");
                }
                *current = Arc::new(new);
            }
            Ok(Err(error)) => warn!(
                error = format!("{error:#}"),
                "the new TLS certificate cannot be used; the server goes on with the one before it"
            ),
            Err(fault) => warn!(%fault, "the TLS certificate was not read again"),
        }
    }
}
