//! Requests to a collector, on the program's own runtime, with its own TLS.
//!
//! Spans are handed over by a thread that has no runtime; the request is made on the program's, and that
//! thread waits. A batch has a connection of its own: there is one every few seconds.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::Uri;
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue};
use hyper_util::rt::TokioIo;
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tracing::warn;

/// How long a request may take, unless the environment says.
const REQUEST: Duration = Duration::from_secs(10);

/// Bytes of an answer; collectors say next to nothing.
const ANSWER: usize = 64 * 1024;

/// The way to a collector.
#[derive(Clone, Debug)]
pub(super) struct Collector {
    runtime: Handle,
    request: Duration,
    tls: Arc<ClientConfig>,
    /// Whether the last request failed: only the first of a row is told.
    is_failing: Arc<AtomicBool>,
}

impl Collector {
    /// As the environment, which `said` reads, has it.
    pub(super) fn new(said: &impl Fn(&str) -> Option<String>) -> Result<Self> {
        let most = said("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT").or_else(|| said("OTEL_EXPORTER_OTLP_TIMEOUT"));
        let request = most.and_then(|most| most.parse().ok()).map_or(REQUEST, Duration::from_millis);
        let authority =
            said("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE").or_else(|| said("OTEL_EXPORTER_OTLP_CERTIFICATE"));
        let tls = Arc::new(tls(authority.as_ref().map(Path::new))?);
        Ok(Self { runtime: Handle::try_current()?, request, tls, is_failing: Arc::default() })
    }

    async fn exchange(self, request: Request<Bytes>) -> Result<Response<Bytes>> {
        let uri = request.uri().clone();
        let host = uri.host().with_context(|| format!("{uri} names no host"))?;
        let is_secure = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
        let host = host.trim_matches(['[', ']']);
        let stream = TcpStream::connect((host, port)).await?;
        if is_secure {
            let name = ServerName::try_from(host.to_owned())?;
            let stream = TlsConnector::from(self.tls).connect(name, stream).await?;
            return ask(stream, request).await;
        }
        ask(stream, request).await
    }

    /// Says that spans are lost, once until one comes through again.
    fn note(&self, to: &Uri, failure: Option<&anyhow::Error>) {
        let was_failing = self.is_failing.swap(failure.is_some(), Ordering::Relaxed);
        if let (Some(error), false) = (failure, was_failing) {
            let (host, port) = (to.host().unwrap_or_default(), to.port_u16());
            warn!(host, port, error = format!("{error:#}"), "spans cannot be sent and are lost");
        }
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let uri = request.uri().clone();
        let (most, asking) = (self.request, self.clone().exchange(request));
        // A timer is made where there is a runtime, which is not here.
        let asking = async move { timeout(most, asking).await };
        let answer = match self.runtime.spawn(asking).await {
            Ok(Ok(Ok(answer))) if !answer.status().is_success() => {
                let refused = anyhow!("the collector answers {}", answer.status());
                self.note(&uri, Some(&refused));
                return Ok(answer);
            }
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(anyhow!("no answer within {:?}", self.request)),
            Err(_) => Err(anyhow!("the program ends")),
        };
        self.note(&uri, answer.as_ref().err());
        answer.map_err(Into::into)
    }
}

/// Public authorities, and the one of the collector if it has its own.
fn tls(authority: Option<&Path>) -> Result<ClientConfig> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(path) = authority {
        let named = || format!("OTEL_EXPORTER_OTLP_CERTIFICATE: {}", path.display());
        for certificate in CertificateDer::pem_file_iter(path).with_context(named)? {
            roots.add(certificate.with_context(named)?).with_context(named)?;
        }
    }
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Asks on a connection of its own.
async fn ask(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Bytes>,
) -> Result<Response<Bytes>> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let (mut head, body) = request.into_parts();
    if let Some(authority) = head.uri.authority() {
        let host = authority.as_str().rsplit('@').next().unwrap_or_default();
        head.headers.insert(HOST, HeaderValue::from_str(host)?);
    }
    head.uri = head.uri.path_and_query().map_or("/", |path| path.as_str()).parse()?;
    let asking = async {
        let answer = sender.send_request(Request::from_parts(head, Full::new(body))).await?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, ANSWER).collect().await.map_err(|error| anyhow!(error))?;
        Ok(Response::from_parts(head, body.to_bytes()))
    };
    // The connection has to be driven; when the answer is there it has no further use.
    let mut driving = std::pin::pin!(connection);
    let mut asking = std::pin::pin!(asking);
    tokio::select! {
        biased;
        answer = &mut asking => answer,
        ended = &mut driving => {
            ended?;
            asking.await
        }
    }
}
