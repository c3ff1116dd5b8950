//! What a command that takes its time tells people, on standard error. Telling never waits: a terminal that
//! is held, or a pipe that nobody reads, stops no work.

use std::io::{self, Write, stderr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use tokio::sync::oneshot;

/// Lines that wait to be written; more are counted and not shown.
const LINES: usize = 1_000;

/// How long the end of a command waits for its lines to be written.
const LAST_LINES: Duration = Duration::from_secs(1);

enum Told {
    Line(String),
    /// Answered when all before it is written.
    End(oneshot::Sender<()>),
}

/// Takes lines; a thread of its own writes them. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Teller {
    lines: SyncSender<Told>,
    lost: Arc<AtomicU64>,
}

impl Teller {
    pub(crate) fn start() -> io::Result<Self> {
        let (lines, told) = sync_channel(LINES);
        let lost = Arc::new(AtomicU64::new(0));
        let counter = lost.clone();
        std::thread::Builder::new().name("windlass-teller".into()).spawn(move || write(&told, &counter))?;
        Ok(Self { lines, lost })
    }

    pub(crate) fn tell(&self, line: impl Into<String>) {
        if self.lines.try_send(Told::Line(line.into())).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Comes when everything told so far is written, or cannot be.
    pub(crate) async fn end(&self) {
        let (written, answer) = oneshot::channel();
        if self.lines.try_send(Told::End(written)).is_ok() {
            let _ = tokio::time::timeout(LAST_LINES, answer).await;
        }
    }
}

fn write(told: &Receiver<Told>, lost: &AtomicU64) {
    while let Ok(told) = told.recv() {
        // Nobody may listen; that is no reason to stop.
        let _ = match told {
            Told::Line(line) => writeln!(stderr(), "{line}"),
            Told::End(written) => {
                let _ = written.send(());
                Ok(())
            }
        };
        match lost.swap(0, Ordering::Relaxed) {
            0 => {}
            lost => drop(writeln!(stderr(), "… {lost} lines were not shown")),
        }
    }
}

/// For logs, which write a whole line at once.
impl Write for Teller {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.tell(String::from_utf8_lossy(bytes).trim_end());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
