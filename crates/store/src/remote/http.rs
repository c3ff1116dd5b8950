//! The way to a server by HTTP/1.1: connections that are kept for the next call, bounded in number, each with
//! one call at a time.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::{spawn_local, yield_now};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::address::Address;
use super::protocol::PROTOCOL;
use super::tls;
use super::transport::{Errand, Lost, Parcel, Transport};
use crate::error::{Error, Result};
use crate::home::Home;

/// Where calls are sent.
pub const STORE_PATH: &str = "/v1/store";

/// Where the call is sent that waits: it has a place of its own among those who wait.
pub const WATCH_PATH: &str = "/v1/store/watch";

/// What says which protocol is spoken, in requests and answers.
pub const PROTOCOL_HEADER: &str = "windlass-protocol";

/// What carries the secret of the worker that a call names.
pub const WORKER_SECRET_HEADER: &str = "windlass-worker-secret";

/// How long a connection may take to be made, and how long a call waits for one that is free.
const CONNECTING: Duration = Duration::from_secs(10);

/// How long a connection is kept without a call. Servers close theirs after ten seconds, and what is sent
/// into one that is being closed may be lost.
const KEPT: Duration = Duration::from_secs(5);

/// Bytes of an answer that is no answer to a call.
const REFUSAL: usize = 64 << 10;

type Sender = SendRequest<Full<Bytes>>;

/// A server, by HTTP. Everything happens on its thread.
#[derive(Debug)]
pub(super) struct Http {
    home: Home,
    way: Arc<Way>,
}

/// How to get there, and the connections that are not in use.
struct Way {
    address: Address,
    tls: Option<TlsConnector>,
    head: Vec<(HeaderName, HeaderValue)>,
    places: Semaphore,
    idle: Mutex<Vec<(Sender, Instant)>>,
}

/// Without the token.
impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Way").field(&self.address).finish()
    }
}

impl Http {
    pub(super) fn new(
        address: Address,
        tls: Option<TlsConnector>,
        token: Option<&str>,
        connections: usize,
    ) -> Result<Self> {
        let unusable = |_| Error::Unusable(format!("{address} cannot be asked for: it is no legal address"));
        let mut head = vec![
            (HOST, HeaderValue::from_str(&address.authority()).map_err(unusable)?),
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (USER_AGENT, HeaderValue::from_static(concat!("windlass/", env!("CARGO_PKG_VERSION")))),
            (HeaderName::from_static(PROTOCOL_HEADER), HeaderValue::from(PROTOCOL)),
        ];
        if let Some(token) = token {
            let mut bearer = HeaderValue::from_str(&format!("Bearer {token}"))
                .map_err(|_| Error::Unusable("the token cannot be sent".into()))?;
            bearer.set_sensitive(true);
            head.push((AUTHORIZATION, bearer));
        }
        let (places, idle) = (Semaphore::new(connections), Mutex::default());
        let way = Arc::new(Way { address, tls, head, places, idle });
        Ok(Self { home: Home::new("windlass-remote")?, way })
    }
}

#[async_trait]
impl Transport for Http {
    async fn exchange(&self, parcel: Parcel) -> Result<Bytes, Lost> {
        let (way, writes) = (self.way.clone(), parcel.writes);
        let exchanging = move || async move { Ok(way.exchange(&parcel).await) };
        let exchanged = match writes {
            true => self.home.run(exchanging).await,
            false => self.home.run_while_wanted(exchanging).await,
        };
        exchanged.unwrap_or_else(|error| Err(Lost::Refused(error)))
    }

    fn spawn(&self, errand: Errand) {
        self.home.spawn(errand);
    }

    fn place(&self) -> String {
        self.way.address.to_string()
    }
}

/// A connection for one call.
struct Line {
    sender: Sender,
    /// Whether it was used before, so that the server may have closed it meanwhile.
    is_used: bool,
}

impl Way {
    async fn exchange(&self, parcel: &Parcel) -> Result<Bytes, Lost> {
        // Who waits for bells takes nobody's place.
        let place = match parcel.waits {
            true => None,
            false => Some(timeout(CONNECTING, self.places.acquire()).await.map_err(|_| {
                Lost::Unsent(format!("no connection to {} was free within {CONNECTING:?}", self.address))
            })?),
        };
        let mut line = self.line(parcel).await?;
        let answer = loop {
            let request = self.request(parcel)?;
            let sent = timeout(parcel.patience, line.sender.try_send_request(request)).await;
            let Ok(sent) = sent else { return Err(self.silent(parcel)) };
            match sent {
                Ok(answer) => break answer,
                Err(mut error) => {
                    let is_unsent = error.take_message().is_some();
                    if line.is_used && (is_unsent || !parcel.writes) {
                        line = self.connect().await?;
                        continue;
                    }
                    let why = self.failed(&error.into_error());
                    return Err(if is_unsent { Lost::Unsent(why) } else { Lost::Unanswered(why) });
                }
            }
        };
        let answer = timeout(parcel.patience, self.read(answer, parcel)).await;
        let answer = answer.unwrap_or_else(|_| Err(self.silent(parcel)))?;
        self.keep(line.sender);
        drop(place);
        Ok(answer)
    }

    fn silent(&self, parcel: &Parcel) -> Lost {
        Lost::Unanswered(format!("{} did not answer within {:?}", self.address, parcel.patience))
    }

    /// What to say of a connection that failed.
    fn failed(&self, error: &hyper::Error) -> String {
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
        let advice = match error.is_parse() {
            true => "; is it a Windlass server, and http:// or https:// as it is?",
            false => "",
        };
        format!("{} did not answer ({error}{cause}){advice}", self.address)
    }

    fn request(&self, parcel: &Parcel) -> Result<Request<Full<Bytes>>, Lost> {
        let path = if parcel.waits { WATCH_PATH } else { STORE_PATH };
        let mut request = Request::post(format!("{}{path}", self.address.prefix));
        for (name, value) in &self.head {
            request = request.header(name, value);
        }
        if let Some(secret) = &parcel.secret {
            let mut secret = HeaderValue::from_str(secret.text())
                .map_err(|_| Lost::Unsent("the secret of the worker cannot be sent".into()))?;
            secret.set_sensitive(true);
            request = request.header(WORKER_SECRET_HEADER, secret);
        }
        let request = request.body(Full::new(parcel.body.clone()));
        request.map_err(|error| Lost::Unsent(format!("{} cannot be asked: {error}", self.address)))
    }

    /// A connection that is kept, or a new one.
    async fn line(&self, parcel: &Parcel) -> Result<Line, Lost> {
        // What has become of connections meanwhile is heard of first: what is sent into one that was closed
        // may be lost.
        yield_now().await;
        while let Some((mut sender, since)) = self.take() {
            // It comes at once for one that can be used, and for one that is closed.
            if since.elapsed() < KEPT && matches!(timeout(parcel.patience, sender.ready()).await, Ok(Ok(())))
            {
                return Ok(Line { sender, is_used: true });
            }
        }
        self.connect().await
    }

    fn take(&self) -> Option<(Sender, Instant)> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn keep(&self, sender: Sender) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|(sender, since)| !sender.is_closed() && since.elapsed() < KEPT);
        if !sender.is_closed() {
            idle.push((sender, Instant::now()));
        }
    }

    async fn connect(&self) -> Result<Line, Lost> {
        let late = || Lost::Unsent(format!("{} cannot be reached within {CONNECTING:?}", self.address));
        timeout(CONNECTING, self.connecting()).await.unwrap_or_else(|_| Err(late()))
    }

    async fn connecting(&self) -> Result<Line, Lost> {
        let Address { host, port, .. } = &self.address;
        let stream = TcpStream::connect((&**host, *port)).await.map_err(|error| {
            Lost::Unsent(format!(
                "{} cannot be reached: {error}; is `windlass serve` running there?",
                self.address
            ))
        })?;
        // Calls are small and waited for.
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.tls else { return self.speak(stream).await };
        let name = ServerName::try_from(host.clone())
            .map_err(|error| Lost::Unsent(format!("{} cannot be asked by TLS: {error}", self.address)))?;
        let stream = tls.connect(name, stream).await.map_err(|error| {
            Lost::Unsent(format!("{} cannot be reached: {error}{}", self.address, tls::advice(&error)))
        })?;
        self.speak(stream).await
    }

    async fn speak(&self, stream: impl AsyncRead + AsyncWrite + Unpin + 'static) -> Result<Line, Lost> {
        let (sender, connection) =
            handshake(TokioIo::new(stream)).await.map_err(|error| Lost::Unsent(self.failed(&error)))?;
        // What goes wrong with it is told to who has sent something.
        spawn_local(async move { drop(connection.await) });
        Ok(Line { sender, is_used: false })
    }

    /// The answer to a call, or why it was not let in.
    async fn read(&self, answer: Response<Incoming>, parcel: &Parcel) -> Result<Bytes, Lost> {
        let protocol = answer.headers().get(PROTOCOL_HEADER).and_then(|value| value.to_str().ok());
        let protocol = protocol.map(ToOwned::to_owned);
        if let Some(other) = protocol.as_deref().filter(|it| **it != *PROTOCOL.to_string()) {
            return Err(Lost::Refused(Error::Unusable(format!(
                "the server {} speaks protocol {other}, this program {PROTOCOL}; use the same version of both",
                self.address
            ))));
        }
        let status = answer.status();
        if status == StatusCode::OK && protocol.is_some() {
            let body = answer.into_body().collect().await;
            return body.map(|body| body.to_bytes()).map_err(|error| Lost::Unanswered(self.failed(&error)));
        }
        let body = Limited::new(answer.into_body(), REFUSAL).collect().await;
        let body = body.map(|body| body.to_bytes()).unwrap_or_default();
        Err(self.refused(status, &body, parcel))
    }

    /// Why a call was not let in. Whatever is not Windlass's own refusal comes from something that stands
    /// before the server, if there is one at all: what that has passed on before it failed is not known.
    fn refused(&self, status: StatusCode, body: &[u8], parcel: &Parcel) -> Lost {
        let Ok(Problem { code, detail }) = serde_json::from_slice(body) else {
            let why =
                format!("{} answers {status}: it is not a Windlass server, or not one alone", self.address);
            return match status.is_server_error() && parcel.writes {
                true => Lost::Unanswered(why),
                false => Lost::Refused(Error::Unusable(why)),
            };
        };
        let server = &self.address;
        if status.is_server_error() && status != StatusCode::SERVICE_UNAVAILABLE {
            return Lost::Unanswered(format!("{server}: {detail}"));
        }
        Lost::Refused(match status {
            StatusCode::UNAUTHORIZED => Error::Forbidden(format!(
                "{detail} ({server}); set WINDLASS_TOKEN, or name a file with --token-file"
            )),
            StatusCode::FORBIDDEN => Error::Forbidden(format!("{detail} ({server})")),
            StatusCode::PAYLOAD_TOO_LARGE => Error::Forbidden(format!(
                "{detail} ({server}); send less at once, or let it take more: windlass serve --max-body-bytes"
            )),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE | StatusCode::REQUEST_TIMEOUT => {
                Error::Unavailable(format!("{server}: {detail}"))
            }
            _ => Error::Unusable(format!("{server} answers {code}: {detail}; use the same version of both")),
        })
    }
}

/// A refusal of Windlass, as all its routes tell it.
#[derive(Deserialize)]
struct Problem {
    code: String,
    detail: String,
}
