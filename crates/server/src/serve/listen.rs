//! Connections: accepted up to a number, given up when they dawdle, and let finish at the end.

use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::{Context as _, Result};
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::config::Config;
use super::tls::Tls;

/// Bytes of the head of a request.
const HEAD_BYTES: usize = 64 * 1024;

/// What is said to one connection too many.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\
      x-content-type-options: nosniff\r\nreferrer-policy: no-referrer\r\n\r\n";

/// How long to rest when no connection can be accepted, such as when the process has no file left for it.
const REST: Duration = Duration::from_millis(50);

/// Where a server listens.
#[derive(Debug)]
pub(super) struct Listener {
    tcp: TcpListener,
    tls: Option<Tls>,
    places: Arc<Semaphore>,
    times: Times,
}

/// How long a peer may take.
#[derive(Clone, Copy, Debug)]
struct Times {
    /// To send the head of a request, or its part of a handshake.
    head: Duration,
    /// To read some of an answer.
    write: Duration,
    /// For what is in progress at the end.
    drain: Duration,
}

impl Listener {
    pub(super) async fn bind(config: &Config) -> Result<Self> {
        let tls = config.tls.as_ref().map(|(cert, key)| Tls::read(cert, key)).transpose()?;
        let tcp = TcpListener::bind(config.listen)
            .await
            .with_context(|| format!("cannot listen on {}; --listen names another address", config.listen))?;
        let times = Times { head: config.header_time, write: config.limits.body_time, drain: config.drain };
        Ok(Self { tcp, tls, places: Arc::new(Semaphore::new(config.connections)), times })
    }

    /// Where it really listens: a port may have been left to the system.
    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    pub(super) fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Serves until `stop`, then lets what is in progress finish.
    pub(super) async fn serve(self, routes: Router, stop: CancellationToken) {
        let graceful = GracefulShutdown::new();
        if let Some(tls) = &self.tls {
            tokio::spawn(tls.clone().follow(stop.clone()));
        }
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                accepted = self.tcp.accept() => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    debug!(%error, "no connection could be accepted");
                    sleep(REST).await;
                    continue;
                }
            };
            let Ok(place) = self.places.clone().try_acquire_owned() else {
                turn_away(stream);
                continue;
            };
            // Answers are small and waited for.
            let _ = stream.set_nodelay(true);
            let (routes, tls, times) = (routes.clone(), self.tls.clone(), self.times);
            let connection = Connection { routes, times, graceful: graceful.watcher(), place };
            tokio::spawn(async move {
                match tls {
                    None => connection.http1(stream).await,
                    Some(Tls { acceptor, .. }) => connection.secured(&acceptor, stream).await,
                }
            });
        }
        drop(self.tcp);
        let _ = timeout(self.times.drain, graceful.shutdown()).await;
    }
}

/// Says that there is no place, and does not wait for it to be heard.
fn turn_away(mut stream: TcpStream) {
    metrics::counter!("windlass_http_connections_refused_total").increment(1);
    tokio::spawn(async move {
        let _ = timeout(Duration::from_secs(1), stream.write_all(FULL)).await;
    });
}

/// A connection that was accepted.
struct Connection {
    routes: Router,
    times: Times,
    graceful: Watcher,
    place: OwnedSemaphorePermit,
}

impl Connection {
    async fn secured(self, acceptor: &TlsAcceptor, stream: TcpStream) {
        let handshake = timeout(self.times.head, acceptor.accept(stream)).await;
        let Ok(Ok(stream)) = handshake else { return };
        self.http1(stream).await;
    }

    async fn http1(self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(self.times.head).max_buf_size(HEAD_BYTES);
        let io = TokioIo::new(Patient::new(stream, self.times.write));
        let serving = builder.serve_connection(io, TowerToHyperService::new(self.routes));
        let ended = self.graceful.watch(serving).await;
        drop(self.place);
        if let Err(error) = ended {
            debug!(%error, "a connection ended early");
        }
    }
}

/// A stream whose peer must read what it is sent: one who does not for so long is given up.
struct Patient<S> {
    stream: S,
    patience: Duration,
    /// Runs while there is something that the peer does not take.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, waiting: None }
    }

    /// What became of a write, unless it waits for too long.
    fn judge<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let patience = self.patience;
        let waiting =
            self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + patience)));
        match waiting.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        pin!(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = pin!(&mut self.stream).poll_write(cx, bytes);
        self.judge(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = pin!(&mut self.stream).poll_flush(cx);
        self.judge(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = pin!(&mut self.stream).poll_shutdown(cx);
        self.judge(cx, shut)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = pin!(&mut self.stream).poll_write_vectored(cx, bytes);
        self.judge(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
