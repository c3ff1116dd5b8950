//! What the tests of the SQLite store share: small tasks, raw rows, child processes, and a gate before a
//! commit.
#![allow(dead_code)] // each test program uses a part of it

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use windlass_core::{Json, Name, NewTask, NewWorker, TaskId, WorkerId};
use windlass_store::conformance::{KIND, id};
use windlass_store::sqlite::{Durability, Options};
use windlass_store::{SqliteStore, Store};

/// Longer than anything here takes, so that a test which waits in vain fails instead of hanging.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Tells a test program started by [`again`] which part to play.
const ROLE: &str = "WINDLASS_TEST_ROLE";
const PLACE: &str = "WINDLASS_TEST_PLACE";

pub(crate) fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// The task numbered `n`: small, of kind [`KIND`], with a payload that names it.
pub(crate) fn task(n: u64) -> NewTask {
    NewTask::new(id(n), kind(), Json::payload(&format!("{{\"n\":{n}}}")).unwrap())
}

pub(crate) fn kind() -> Name {
    Name::kind(KIND).unwrap()
}

/// A directory in memory where there is one: no test here depends on the disk itself.
pub(crate) fn place() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

/// The file in a directory that stores are opened on.
pub(crate) fn file(directory: impl AsRef<Path>) -> PathBuf {
    directory.as_ref().join("windlass.db")
}

/// Opens without waiting for the disk: what a process leaves behind does not depend on it.
pub(crate) fn open(path: &Path) -> SqliteStore {
    Options::new(path).durability(Durability::Normal).open().unwrap()
}

/// A registered worker of the default queue and [`KIND`].
pub(crate) async fn worker(store: &dyn Store, name: &str) -> WorkerId {
    store.register(new_worker(name)).await.unwrap().id
}

pub(crate) fn new_worker(name: &str) -> NewWorker {
    NewWorker { kinds: vec![kind()], ..NewWorker::new(WorkerId::new(name).unwrap()) }
}

/// The payload and the number of history rows show that a task is there as a whole, or not at all.
pub(crate) async fn is_whole(store: &dyn Store, id: TaskId) -> bool {
    let Some(record) = store.task(id).await.unwrap() else { return false };
    assert_ne!(record.payload, Json::default(), "{id} has its payload");
    assert!(!record.history.is_empty(), "{id} has its history");
    true
}

/// Every row of every table, as text.
pub(crate) type Rows = BTreeMap<String, Vec<String>>;

/// Reads [`Rows`] past the store, so that nothing of the file escapes the comparison.
pub(crate) fn rows(path: &Path) -> Rows {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).unwrap();
    let names = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
    let mut names = connection.prepare(names).unwrap();
    let names = names.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap);
    names
        .map(|name| {
            let mut all = connection.prepare(&format!("SELECT * FROM {name}")).unwrap();
            let columns = all.column_count();
            let row = |row: &rusqlite::Row<'_>| {
                let values = (0..columns).map(|column| row.get::<_, Value>(column));
                Ok(format!("{:?}", values.collect::<Result<Vec<_>, _>>()?))
            };
            let mut rows: Vec<String> = all.query_map([], row).unwrap().map(Result::unwrap).collect();
            rows.sort();
            (name, rows)
        })
        .collect()
}

/// Polls once and no more: the request is in the writer's hands, and nobody listens yet.
pub(crate) fn poll_once<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Holds the writer before a commit, so that callers gather behind it.
pub(crate) struct Gate {
    reached: Receiver<()>,
    open: Sender<()>,
}

/// The writer's side of a [`Gate`]: [`Bar::wait`] is to be called before each commit, and holds up the first.
#[derive(Clone, Default)]
pub(crate) struct Bar(Arc<Mutex<Option<Ends>>>);

/// The bar's ends of the two channels: that the gate was reached, and that it is open.
type Ends = (Sender<()>, Receiver<()>);

impl Bar {
    /// Puts the gate up for the next commit.
    pub(crate) fn close(&self) -> Gate {
        let ((reached, is_reached), (open, is_open)) = (channel(), channel());
        *self.0.lock().unwrap() = Some((reached, is_open));
        Gate { reached: is_reached, open }
    }

    pub(crate) fn wait(&self, statement: &str, before: bool) {
        if (statement, before) == ("commit", true)
            && let Some((reached, open)) = self.0.lock().unwrap().take()
        {
            reached.send(()).unwrap();
            open.recv_timeout(PATIENCE).expect("the gate is opened");
        }
    }
}

impl Gate {
    /// Returns when the writer stands before its commit: whatever is sent now falls into the next group.
    pub(crate) fn reached(&self) {
        self.reached.recv_timeout(PATIENCE).expect("the writer gets to its commit");
    }

    pub(crate) fn open(self) {
        self.open.send(()).unwrap();
    }
}

/// The same test again, as a process of its own that plays `role` at `place`.
pub(crate) fn again(test: &str, role: &str, place: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    cast(&mut command, test, role, place);
    command
}

/// What [`again`] adds to a command that ends by running this test program.
pub(crate) fn cast(command: &mut Command, test: &str, role: &str, place: &Path) {
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(ROLE, role).env(PLACE, place);
}

/// The role and place that this process was started with by [`again`], if it was.
pub(crate) fn role() -> Option<(String, PathBuf)> {
    Some((std::env::var(ROLE).ok()?, std::env::var_os(PLACE)?.into()))
}
