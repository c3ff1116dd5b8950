//! A TCP proxy between a client and a server, for tests of what happens when the network fails.
//!
//! It works in a thread of its own, so it goes on while a test blocks, and serves tests with and without a
//! runtime. Every switch holds for what happens after the call that throws it has returned.
//!
//! Any protocol goes through; only [`Proxy::drop_answer_after_commit`] looks inside, and sees nothing behind
//! TLS.

mod wire;

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tokio::sync::{oneshot, watch};

use wire::{Answers, Requests, Seen};

const CHUNK: usize = 64 * 1024;

/// A running proxy. Dropping it cuts all connections.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    switches: Arc<Switches>,
    // Dropped, it ends the thread.
    running: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Switches {
    target: SocketAddr,
    refuses: AtomicBool,
    stalled: watch::Sender<bool>,
    /// Connections with a smaller number are to end.
    cut_below: watch::Sender<u64>,
    connections: Mutex<Connections>,
    some_ended: Condvar,
    answers_to_drop: AtomicU32,
    answers_dropped: AtomicU32,
}

#[derive(Debug, Default)]
struct Connections {
    next: u64,
    open: BTreeSet<u64>,
}

impl Proxy {
    /// Starts a proxy on a free port of 127.0.0.1 for a server that need not be there yet.
    pub fn start(target: SocketAddr) -> io::Result<Self> {
        let switches = Arc::new(Switches {
            target,
            refuses: AtomicBool::new(false),
            stalled: watch::Sender::new(false),
            cut_below: watch::Sender::new(0),
            connections: Mutex::default(),
            some_ended: Condvar::new(),
            answers_to_drop: AtomicU32::new(0),
            answers_dropped: AtomicU32::new(0),
        });
        let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let listener = {
            let _entered = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let addr = listener.local_addr()?;
        let (running, ended) = oneshot::channel();
        let thread = thread::Builder::new().name("proxy".to_owned()).spawn({
            let switches = Arc::clone(&switches);
            move || {
                runtime.block_on(async {
                    tokio::select! {
                        _ = ended => {}
                        () = accept(listener, &switches) => {}
                    }
                });
            }
        })?;
        Ok(Self { addr, switches, running: Some(running), thread: Some(thread) })
    }

    /// What clients connect to.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// How many connections are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.switches.connections().open.len()
    }

    /// Resets all connections, on both sides, and says how many. Bytes on their way are lost. New ones are
    /// welcome.
    pub fn cut(&self) -> usize {
        let mut connections = self.switches.connections();
        let below = connections.next;
        let count = connections.open.len();
        self.switches.cut_below.send_replace(below);
        while connections.open.range(..below).next().is_some() {
            connections = self.switches.some_ended.wait(connections).unwrap_or_else(PoisonError::into_inner);
        }
        count
    }

    /// Whether new connections are reset as soon as they are made.
    pub fn refuse(&self, refuses: bool) {
        self.switches.refuses.store(refuses, Ordering::SeqCst);
    }

    /// Whether bytes are held back, in both directions. Nothing is lost: they go on when this is over.
    pub fn stall(&self, stalled: bool) {
        self.switches.stalled.send_replace(stalled);
    }

    /// For the next so many commits: the server carries the commit out and answers, but the connection is
    /// reset in place of that answer. A transaction that the server rolls back at `COMMIT` is none; neither
    /// is a statement outside of a transaction block.
    pub fn drop_answer_after_commit(&self, commits: u32) {
        self.switches.answers_to_drop.store(commits, Ordering::SeqCst);
    }

    /// How many answers were dropped since the start. The count is right as soon as a client sees its
    /// connection end.
    #[must_use]
    pub fn answers_dropped(&self) -> u32 {
        self.switches.answers_dropped.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.running.take());
        if let Some(thread) = self.thread.take() {
            // A panic in there has been printed; here it would end a test that is ending anyway.
            let _ = thread.join();
        }
    }
}

impl Switches {
    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_answer(&self) -> bool {
        let one_less = |left: u32| left.checked_sub(1);
        let taken = self.answers_to_drop.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok();
        if taken {
            self.answers_dropped.fetch_add(1, Ordering::SeqCst);
        }
        taken
    }
}

async fn accept(listener: TcpListener, switches: &Arc<Switches>) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            // Its client gave up already, or there are too many open files, which takes an end elsewhere.
            tokio::task::yield_now().await;
            continue;
        };
        if switches.refuses.load(Ordering::SeqCst) {
            let _ = client.set_zero_linger();
            continue;
        }
        let number = {
            let mut connections = switches.connections();
            let number = connections.next;
            connections.next += 1;
            connections.open.insert(number);
            number
        };
        let switches = Arc::clone(switches);
        tokio::spawn(async move {
            let _ = serve(client, number, &switches).await;
            switches.connections().open.remove(&number);
            switches.some_ended.notify_all();
        });
    }
}

/// Both directions, until both have ended or something breaks.
async fn serve(mut client: TcpStream, number: u64, switches: &Switches) -> io::Result<()> {
    let mut cut_below = switches.cut_below.subscribe();
    let cut = async move { cut_below.wait_for(|below| *below > number).await.map(drop) };
    tokio::pin!(cut);
    let mut server = tokio::select! {
        server = TcpStream::connect(switches.target) => server?,
        _ = &mut cut => {
            return client.set_zero_linger();
        }
    };
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ended = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let requests = Requests::default();
        let answers = Answers::to(&requests);
        tokio::select! {
            _ = &mut cut => Err(io::ErrorKind::ConnectionReset.into()),
            ended = async {
                tokio::try_join!(
                    carry_requests(from_client, to_server, requests, switches),
                    carry_answers(from_server, to_client, answers, switches),
                )
            } => ended.map(drop),
        }
    };
    // What ended in order has been closed in order. The rest is reset, so that neither side takes it for an
    // orderly end.
    if ended.is_err() {
        client.set_zero_linger()?;
        server.set_zero_linger()?;
    }
    ended
}

async fn carry_requests(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut requests: Requests,
    switches: &Switches,
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = from.read(&mut chunk).await?;
        if length == 0 {
            return to.shutdown().await;
        }
        requests.see(&chunk[..length]);
        pass(&mut to, &chunk[..length], switches).await?;
    }
}

async fn carry_answers(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut answers: Answers,
    switches: &Switches,
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = from.read(&mut chunk).await?;
        if length == 0 {
            pass(&mut to, &answers.rest(), switches).await?;
            return to.shutdown().await;
        }
        answers.add(&chunk[..length]);
        while let Some(seen) = answers.next() {
            match seen {
                Seen::Commit(_) if switches.take_answer() => {
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
                Seen::Commit(bytes) | Seen::Other(bytes) => pass(&mut to, &bytes, switches).await?,
            }
        }
    }
}

/// Writes as soon as nothing is held back.
async fn pass(to: &mut WriteHalf<'_>, bytes: &[u8], switches: &Switches) -> io::Result<()> {
    let mut stalled = switches.stalled.subscribe();
    stalled.wait_for(|stalled| !stalled).await.map_err(io::Error::other)?;
    to.write_all(bytes).await
}
