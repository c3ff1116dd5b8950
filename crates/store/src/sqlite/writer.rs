//! The one thread that writes, and its natural group commit.
//!
//! Callers hand in work and wait. The thread begins a transaction with the first piece, takes in whatever has
//! arrived meanwhile, and commits once for all of them; while that commit is on its way to the disk the next
//! group gathers. An idle store adds no delay and a busy one pays one fsync for many callers. Each caller's
//! work is a savepoint of its own: what is refused or fails is undone alone.
//!
//! A caller that goes away has no effect: its work is in the thread's hands.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use windlass_core::Timestamp;

use super::failure::{failure, is_busy, is_device_failure};
use super::identity::Identity;
use super::row;
use super::tx::{Held, Ledger, Probe, Statements, Tx};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::request::Rings;
use crate::workflow::{Blueprints, Touched};

/// Tasks that one transaction may touch before it takes in no more work: bounds how long the first of it
/// waits for its answer.
const GROUP: usize = 2_000;

/// Pieces of work that may wait. More callers than this wait outside, holding nothing.
const WAITING: usize = 1024;

/// How long the thread stays awake for the next caller: a caller that does one thing after another is back
/// within this time, and finds it awake. Meanwhile it yields to whoever wants the core.
const LINGER: Duration = Duration::from_micros(250);

/// How often an idle writer looks for commits of other processes, while somebody watches.
const LOOK: Duration = Duration::from_millis(20);

/// How long another process may hold the write lock before callers are told.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// A caller's work, in the thread's hands.
trait Work: Send {
    /// How many tasks it may touch.
    fn tasks(&self) -> usize;
    /// Does it, inside the transaction.
    fn run(&mut self, tx: &mut Tx<'_, '_>, savepoint: &Savepoint<'_>);
    /// Tells the caller, once the transaction has ended.
    fn answer(self: Box<Self>, ended: Result<()>);
}

/// A [`Work`] and the way back to its caller.
struct Job<F, T> {
    tasks: usize,
    work: Option<F>,
    done: Option<Result<T>>,
    caller: oneshot::Sender<Result<T>>,
    /// Gives up its place among those who wait when it is answered.
    _room: OwnedSemaphorePermit,
}

impl<T: Send, F: FnOnce(&mut Tx<'_, '_>) -> Result<T> + Send> Work for Job<F, T> {
    fn tasks(&self) -> usize {
        self.tasks
    }

    fn run(&mut self, tx: &mut Tx<'_, '_>, savepoint: &Savepoint<'_>) {
        self.done = self.work.take().map(|work| savepoint.guard(tx, work));
    }

    fn answer(self: Box<Self>, ended: Result<()>) {
        let answer = match (self.done, ended) {
            (Some(Ok(done)), Ok(())) => Ok(done),
            (Some(Err(error)), _) | (_, Err(error)) => Err(error),
            (None, Ok(())) => Err(Error::Closed),
        };
        // Nobody listens any more if the caller went away. That is fine.
        let _ = self.caller.send(answer);
    }
}

enum Message {
    Work(Box<dyn Work>),
    /// Somebody watches now: begin to look for other processes.
    Look,
}

/// The handle to the thread.
pub(super) struct Writer {
    messages: Mutex<Option<Sender<Message>>>,
    room: Arc<Semaphore>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub(super) fn start(
        connection: Connection,
        identity: Identity,
        clock: Arc<dyn Clock>,
        wake: watch::Sender<Rings>,
        blueprints: Arc<Blueprints>,
        probe: Option<Probe>,
    ) -> Result<Self> {
        let (messages, inbox) = channel();
        let thread = std::thread::Builder::new().name("windlass-sqlite".into()).spawn(move || {
            let mut keeper = Keeper::new(&connection, identity, clock, wake, blueprints, probe);
            keeper.work_off(&inbox);
        });
        let thread =
            thread.map_err(|error| Error::Unavailable(format!("no thread for the writer: {error}")))?;
        Ok(Self {
            messages: Mutex::new(Some(messages)),
            room: Arc::new(Semaphore::new(WAITING)),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Has `work`, which may touch so many tasks, done in the next transaction, and waits until that is
    /// durable.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        tasks: usize,
        work: impl FnOnce(&mut Tx<'_, '_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let room = self.room.clone().acquire_owned().await.map_err(|_| Error::Closed)?;
        let (caller, answer) = oneshot::channel();
        let job = Job { tasks, work: Some(work), done: None, caller, _room: room };
        self.send(Message::Work(Box::new(job)))?;
        answer.await.unwrap_or(Err(Error::Closed))
    }

    /// From now on an idle writer looks for commits of other processes.
    pub(super) fn look(&self) {
        // A closed store has no news.
        let _ = self.send(Message::Look);
    }

    fn send(&self, message: Message) -> Result<()> {
        let messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        messages.as_ref().and_then(|messages| messages.send(message).ok()).ok_or(Error::Closed)
    }

    /// Lets the thread finish what it has, and waits for its end.
    pub(super) async fn stop(&self) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).take();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // It catches the panics of its work; there is nothing to learn from its own.
            let _ = tokio::task::spawn_blocking(|| thread.join()).await;
        }
    }
}

/// Undoes one caller's work without touching its neighbours'.
struct Savepoint<'c> {
    connection: &'c Connection,
    /// The first in a transaction needs none: undoing it is undoing all there is.
    first: bool,
}

impl Savepoint<'_> {
    fn guard<'t, 'c, T>(
        &self,
        tx: &mut Tx<'t, 'c>,
        work: impl FnOnce(&mut Tx<'t, 'c>) -> Result<T>,
    ) -> Result<T> {
        let before = tx.ledger.clone();
        if !self.first {
            run(self.connection, &["SAVEPOINT caller"]).map_err(failure)?;
        }
        let done = catch_unwind(AssertUnwindSafe(|| work(tx))).unwrap_or_else(|_| {
            Err(Error::Unavailable(
                "a bug stopped this request; it was undone, and the bug was printed".into(),
            ))
        });
        if done.is_err() {
            tx.ledger = before;
            tx.held.forget();
        }
        let end: &[&str] = match (&done, self.first) {
            (Ok(_), true) => return done,
            (Ok(_), false) => &["RELEASE caller"],
            (Err(_), true) => &["ROLLBACK"],
            (Err(_), false) => &["ROLLBACK TO caller", "RELEASE caller"],
        };
        // After some failures SQLite has undone everything by itself; the group notices that.
        if !self.connection.is_autocommit() {
            run(self.connection, end).map_err(failure)?;
        }
        done
    }
}

/// What lives on the thread.
struct Keeper<'c> {
    connection: &'c Connection,
    identity: Identity,
    clock: Arc<dyn Clock>,
    wake: watch::Sender<Rings>,
    probe: Option<Probe>,
    held: Held,
    blueprints: Arc<Blueprints>,
    /// Changes with every commit of another connection, and all writing of this process is done here.
    data_version: Option<i64>,
    /// Until when changes are told to those who listen; unknown at first, and whenever another process may
    /// have changed it.
    listened_until: Option<Timestamp>,
    /// Why nothing is written any more, once the device has failed or the file is another.
    broken: Option<Error>,
}

impl<'c> Keeper<'c> {
    fn new(
        connection: &'c Connection,
        identity: Identity,
        clock: Arc<dyn Clock>,
        wake: watch::Sender<Rings>,
        blueprints: Arc<Blueprints>,
        probe: Option<Probe>,
    ) -> Self {
        let held = Held::default();
        let (data_version, listened_until, broken) = (None, None, None);
        Self {
            connection,
            identity,
            clock,
            wake,
            probe,
            held,
            blueprints,
            data_version,
            listened_until,
            broken,
        }
    }

    fn work_off(&mut self, inbox: &Receiver<Message>) {
        let mut statements = match Statements::prepare(self.connection) {
            Ok(statements) => Some(statements),
            Err(error) => {
                self.broken = Some(failure(error));
                None
            }
        };
        self.foreign_commits();
        let mut busy = false;
        loop {
            let soon = if busy { linger(inbox) } else { None };
            let message = soon.map_or_else(|| self.wait(inbox), Ok);
            busy = matches!(message, Ok(Message::Work(_)));
            match message {
                Ok(Message::Work(work)) => match &mut statements {
                    Some(statements) => self.group(statements, work, inbox),
                    None => work.answer(self.broken.clone().map_or(Ok(()), Err)),
                },
                Ok(Message::Look) => {}
                Err(RecvTimeoutError::Timeout) => {
                    if self.foreign_commits() {
                        self.wake.send_modify(Rings::ring_all);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn wait(&self, inbox: &Receiver<Message>) -> Result<Message, RecvTimeoutError> {
        if self.wake.receiver_count() > 0 {
            inbox.recv_timeout(LOOK)
        } else {
            inbox.recv().map_err(|_| RecvTimeoutError::Disconnected)
        }
    }

    /// Whether another process has committed since this was last asked. What is remembered of rows is then
    /// void.
    fn foreign_commits(&mut self) -> bool {
        let version = self.connection.prepare_cached("PRAGMA data_version");
        let version = version.and_then(|mut pragma| pragma.query_row([], |row| row.get(0))).ok();
        let changed = version.is_none() || version != self.data_version;
        if changed {
            self.held.forget();
            self.listened_until = None;
        }
        self.data_version = version;
        changed
    }

    /// Tells those who wait what one transaction has done; nobody, if there is nothing to tell.
    fn ring(&self, news: Rings) {
        let Rings { claimable, timed, settled, revoked } = news;
        self.wake.send_if_modified(|rings| {
            rings.claimable += claimable;
            rings.timed += timed;
            rings.settled += settled;
            rings.revoked += revoked;
            news != Rings::default()
        });
    }

    /// One transaction for the work at hand and all that arrives before it ends.
    fn group(&mut self, statements: &mut Statements<'_>, first: Box<dyn Work>, inbox: &Receiver<Message>) {
        let (mut done, mut ledger, mut next) = (Vec::new(), Ledger::default(), Some(first));
        let mut tasks = 0_usize;
        while let Some(mut work) = next.take() {
            let first = self.connection.is_autocommit();
            if first {
                ledger = Ledger::default();
                match self.begin() {
                    Ok(until) => ledger.listened_until = until,
                    Err(error) => {
                        done.push(work);
                        return answer(done, &Err(error));
                    }
                }
            }
            let (held, probe) = (&mut self.held, self.probe.as_ref());
            let (touched, blueprints, now) = (Touched::default(), &*self.blueprints, self.clock.now());
            let mut tx = Tx { sql: statements, held, ledger, touched, blueprints, now, probe };
            work.run(&mut tx, &Savepoint { connection: self.connection, first });
            ledger = tx.ledger;
            tasks = tasks.saturating_add(work.tasks());
            done.push(work);
            if self.connection.is_autocommit() && !first {
                let why = "the database gave up the transaction (is the disk full?); repeat the request";
                return answer(done, &Err(Error::Unavailable(why.into())));
            }
            while tasks < GROUP && next.is_none() {
                match inbox.try_recv() {
                    Ok(Message::Work(work)) => next = Some(work),
                    Ok(Message::Look) => {}
                    Err(_) => break,
                }
            }
        }
        let (news, listened_until) = (ledger.rings, ledger.listened_until);
        let ended = if self.connection.is_autocommit() { Ok(()) } else { self.commit(statements, ledger) };
        if ended.is_ok() {
            self.listened_until = Some(listened_until);
            self.ring(news);
        }
        answer(done, &ended);
    }

    /// Begins a transaction. Says until when changes are told.
    fn begin(&mut self) -> Result<Timestamp> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let since = Instant::now();
        loop {
            match run(self.connection, &["BEGIN IMMEDIATE"]) {
                Ok(()) => {
                    if self.foreign_commits() {
                        self.wake.send_modify(Rings::ring_all);
                    }
                    return self.listened_until();
                }
                Err(error) if is_busy(&error) && since.elapsed() < PATIENCE => {}
                Err(error) => return Err(self.note(error)),
            }
        }
    }

    fn listened_until(&mut self) -> Result<Timestamp> {
        if let Some(until) = self.listened_until {
            return Ok(until);
        }
        let found = self.connection.prepare_cached(include_str!("sql/listened_until.sql"));
        let found = found.and_then(|mut statement| statement.query_row([], |row| row::time(row, 0)));
        let until = found.map_err(|error| {
            self.roll_back();
            self.note(error)
        })?;
        self.listened_until = Some(until);
        Ok(until)
    }

    fn commit(&mut self, statements: &mut Statements<'_>, ledger: Ledger) -> Result<()> {
        let (held, probe) = (&mut self.held, self.probe.as_ref());
        let (touched, blueprints, now) = (Touched::default(), &*self.blueprints, self.clock.now());
        let settled = Tx { sql: statements, held, ledger, touched, blueprints, now, probe }.settle();
        if let Err(error) = settled {
            self.roll_back();
            return Err(error);
        }
        if let Some(error) = self.moved() {
            self.roll_back();
            return Err(error);
        }
        let probe = self.probe.as_ref();
        if let Some(probe) = probe {
            probe("commit", true);
        }
        let committed = run(self.connection, &["COMMIT"]);
        if let Some(probe) = probe {
            probe("commit", false);
        }
        committed.map_err(|error| {
            let uncertain = is_device_failure(&error);
            let error = self.note(error);
            self.roll_back();
            if uncertain { Error::Unknown(error.to_string()) } else { error }
        })?;
        // Once more before it is acknowledged: it may be in a file that nobody can find.
        self.moved().map_or(Ok(()), |error| Err(Error::Unknown(error.to_string())))
    }

    /// The store's file is not at its path any more. What is written then would be lost, so no more is
    /// accepted.
    fn moved(&mut self) -> Option<Error> {
        let error = Error::Moved(self.identity.change()?);
        self.broken = Some(error.clone());
        Some(error)
    }

    /// Remembers a failure of the device: what it holds is uncertain, so no more is accepted until it is
    /// opened anew.
    fn note(&mut self, error: rusqlite::Error) -> Error {
        if is_device_failure(&error) {
            let why = format!("the storage device failed ({error}); check it, then open the store again");
            self.broken = Some(Error::Unavailable(why));
        }
        failure(error)
    }

    fn roll_back(&mut self) {
        self.held.forget();
        if !self.connection.is_autocommit() {
            // Nothing more can be done here; closing the connection rolls back too.
            let _ = run(self.connection, &["ROLLBACK"]);
        }
    }
}

/// Runs what begins and ends transactions, parsed only the first time.
fn run(connection: &Connection, statements: &[&str]) -> rusqlite::Result<()> {
    statements.iter().try_for_each(|sql| connection.prepare_cached(sql)?.execute([]).map(drop))
}

/// What arrives within a moment. A caller that goes on at once then finds the thread awake; others may have
/// the core meanwhile.
fn linger(inbox: &Receiver<Message>) -> Option<Message> {
    let since = Instant::now();
    loop {
        match inbox.try_recv() {
            Ok(message) => return Some(message),
            Err(TryRecvError::Empty) if since.elapsed() < LINGER => std::thread::yield_now(),
            Err(_) => return None,
        }
    }
}

fn answer(done: Vec<Box<dyn Work>>, ended: &Result<()>) {
    for work in done {
        work.answer(ended.clone());
    }
}
