//! What goes into a program and what comes out of it. Whatever has been read is kept, wherever reading is
//! broken off.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use windlass::{Context, TaskId, limits};

/// Tells a program to begin, if it still may, and gives it the payload. One that does not read it is not at
/// fault.
pub(crate) async fn feed(
    stdin: Option<impl AsyncWrite + Unpin>,
    payload: &str,
    may_begin: impl FnOnce() -> bool,
) {
    if let Some(mut stdin) = stdin.filter(|_| may_begin()) {
        let _ = stdin.write_all(b"go\n").await;
        let _ = stdin.write_all(payload.as_bytes()).await;
    }
}

/// What a program writes to its standard output: one byte more than a result may have, at most.
#[derive(Debug, Default)]
pub(crate) struct Output(Vec<u8>);

impl Output {
    /// Reads to the end. What is too much is dropped, so that the program can go on.
    pub(crate) async fn read(&mut self, stdout: Option<impl AsyncRead + Unpin>) {
        let Some(mut stdout) = stdout else { return };
        let mut chunk = vec![0; 16 << 10];
        while let Ok(read @ 1..) = stdout.read(&mut chunk).await {
            let room = (limits::JSON_BYTES + 1).saturating_sub(self.0.len());
            self.0.extend_from_slice(&chunk[..read.min(room)]);
        }
    }

    /// All of it as text, if it is not too much. What is not UTF-8 is replaced by U+FFFD.
    pub(crate) fn text(&self) -> Option<String> {
        (self.0.len() <= limits::JSON_BYTES).then(|| String::from_utf8_lossy(&self.0).into_owned())
    }
}

/// The last line of each program that runs, for somebody who watches. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastLines(Arc<Mutex<HashMap<TaskId, String>>>);

impl LastLines {
    fn lines(&self) -> MutexGuard<'_, HashMap<TaskId, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the program of a task has last written, if it runs and has written something.
    pub(crate) fn of(&self, task: TaskId) -> Option<String> {
        self.lines().get(&task).cloned()
    }
}

/// What a program writes to its standard error: the attempt's log.
#[derive(Debug)]
pub(crate) struct Log<'c> {
    context: &'c Context,
    watched: Option<&'c LastLines>,
    line: Vec<u8>,
    last: String,
}

impl Drop for Log<'_> {
    fn drop(&mut self) {
        if let Some(watched) = self.watched {
            watched.lines().remove(&self.context.id());
        }
    }
}

impl<'c> Log<'c> {
    pub(crate) fn new(context: &'c Context, watched: Option<&'c LastLines>) -> Self {
        Self { context, watched, line: Vec::new(), last: String::new() }
    }

    /// Reads to the end and keeps the lines; one that is too long, in pieces.
    pub(crate) async fn read(&mut self, stderr: Option<impl AsyncRead + Unpin>) {
        let Some(stderr) = stderr else { return };
        let mut reader = BufReader::new(stderr);
        loop {
            let room = limits::LINE_BYTES - self.line.len();
            let mut piece = (&mut reader).take(u64::try_from(room).unwrap_or(u64::MAX));
            match piece.read_until(b'\n', &mut self.line).await {
                Ok(1..) if self.line.ends_with(b"\n") => self.keep(self.line.len()),
                Ok(1..) if self.line.len() == limits::LINE_BYTES => self.keep(whole(&self.line)),
                Ok(1..) => {}
                Ok(0) | Err(_) => return,
            }
        }
    }

    fn keep(&mut self, end: usize) {
        let line: Vec<u8> = self.line.drain(..end).collect();
        let text = String::from_utf8_lossy(&line);
        self.context.log(text.trim_end());
        if !text.trim().is_empty() {
            self.last = text.trim().into();
            if let Some(watched) = self.watched {
                watched.lines().insert(self.context.id(), self.last.clone());
            }
        }
    }

    /// The last line that says something.
    pub(crate) fn end(mut self) -> String {
        if !self.line.is_empty() {
            self.keep(self.line.len());
        }
        std::mem::take(&mut self.last)
    }
}

/// How much of `bytes` ends with a whole character.
fn whole(bytes: &[u8]) -> usize {
    let cut = bytes.utf8_chunks().last().map(|chunk| chunk.invalid()).unwrap_or_default();
    let is_cut = std::str::from_utf8(cut).is_err_and(|error| error.error_len().is_none());
    if is_cut { bytes.len() - cut.len() } else { bytes.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_not_cut() {
        for (bytes, end) in [
            (&b"abc"[..], 3),
            ("a👍".as_bytes(), 5),
            (&"a👍".as_bytes()[..4], 1),
            (&"é".as_bytes()[..1], 0),
            (b"a\xff", 2),
            (b"a\xff\xc3", 2),
            (b"", 0),
        ] {
            assert_eq!(whole(bytes), end, "{bytes:?}");
        }
    }

    #[tokio::test]
    async fn an_endless_output_takes_no_more_memory_than_a_result() {
        let mut output = Output::default();
        output.read(Some(tokio::io::repeat(b'x').take(5 << 20))).await;
        assert_eq!((output.0.len(), output.text()), (limits::JSON_BYTES + 1, None));
    }
}
