//! How to know that a server is who it says: by the public authorities, or one that a file names.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use crate::error::{Error, Result};

pub(super) fn connector(ca_file: Option<&Path>) -> Result<TlsConnector> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(path) = ca_file {
        let unusable = |why: String| {
            Error::Unusable(format!("the file of authorities {} cannot be used: {why}", path.display()))
        };
        let text = fs::read(path).map_err(|error| unusable(error.to_string()))?;
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
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Unusable(format!("TLS cannot be used: {error}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// What to do about a handshake that failed.
pub(super) fn advice(error: &std::io::Error) -> &'static str {
    let error = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
    match error {
        Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            "; no authority that is trusted signed its certificate: name the file of the one that did, with \
             --ca-file or WINDLASS_CA_FILE"
        }
        Some(rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => "; its certificate is for another name: use a name that it is for",
        Some(rustls::Error::InvalidCertificate(_)) => "; give the server a certificate that is valid",
        Some(rustls::Error::InvalidMessage(_)) => "; it does not speak TLS there: is it http://?",
        _ => "",
    }
}
