//! The program as a person types it, on real files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod batch;
mod demo;
mod hostile;
mod looking;
mod manual;
mod operating;
mod schedules;
mod submitting;
mod usage;

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use windlass::{Context, TaskError, Windlass};

/// A directory for one test, which the program runs in.
struct Place(TempDir);

/// What a run of the program said.
struct Said {
    /// For what failed.
    asked: String,
    code: i32,
    out: String,
    err: String,
}

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// What is in the directory.
    fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command
            .current_dir(self.path())
            .env_remove("WINDLASS_STORE")
            .env("USER", "grace")
            .stdin(Stdio::null());
        command
    }

    /// Runs the program to its end, whatever that is.
    fn run<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Said {
        let mut command = self.command();
        let output = command.args(arguments).output().unwrap();
        Said::of(&command, output)
    }

    /// Runs the program with something on its standard input.
    fn run_with(&self, arguments: &[&str], input: &[u8]) -> Said {
        let mut command = self.command();
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // It may have ended without reading, which is its right.
        let _ = child.stdin.take().unwrap().write_all(input);
        Said::of(&command, child.wait_with_output().unwrap())
    }

    /// Runs the program, which succeeds, and gives what it says to people.
    fn text(&self, arguments: &[&str]) -> String {
        self.run(arguments).good().out
    }

    /// Runs the program with `--json`; it succeeds and prints one JSON value.
    fn json(&self, arguments: &[&str]) -> Value {
        let said = self.run(&[arguments, &["--json"]].concat()).good();
        serde_json::from_str(&said.out).expect("one JSON value and nothing else")
    }

    /// Submits and gives the id.
    fn submit(&self, arguments: &[&str]) -> String {
        let submitted = self.json(&[&["submit"], arguments].concat());
        assert_eq!(submitted["created"], true);
        submitted["id"].as_str().unwrap().into()
    }

    /// The engine on the default store.
    async fn open(&self) -> Windlass {
        Windlass::open(&format!("sqlite:{}", self.path().join("windlass.db").display())).await.unwrap()
    }

    /// Works off tasks with a worker whose handler of the kind `work` does as their payload says, until these
    /// are over.
    async fn work(&self, ids: &[&str]) {
        let windlass = self.open().await;
        let worker = windlass.worker().handle_kind("work", handler).start().await.unwrap();
        for id in ids {
            windlass.client().wait(id.parse().unwrap()).await.unwrap();
        }
        worker.stop().await.unwrap();
        windlass.close().await.unwrap();
    }
}

/// Tells everything it can, then ends as its payload says.
async fn handler(context: Context) -> Result<Value, TaskError> {
    let payload: Value = serde_json::from_str(context.payload().as_str())?;
    let note = payload["note"].as_str().map(str::to_owned);
    context.progress(3, 10, note.clone());
    context.log(format!("attempt {} begins", context.attempt()));
    context.log(note.unwrap_or_else(|| "nothing to note".into()));
    match payload["end"].as_str() {
        Some("fail") => Err(TaskError::fail(payload["note"].as_str().unwrap_or("no good"))),
        Some("retry") => Err(TaskError::retry("not yet")),
        _ => Ok(payload),
    }
}

impl Said {
    fn of(command: &Command, output: Output) -> Self {
        let asked = format!("{:.400}", format!("{command:?}"));
        let text = |bytes| String::from_utf8(bytes).expect("what is printed is UTF-8");
        Self {
            asked,
            code: output.status.code().expect("it ends by itself"),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    fn good(self) -> Self {
        assert_eq!((self.code, &*self.err), (0, ""), "{}: {}", self.asked, self.out);
        self
    }

    /// It has an answer, and failed with this code, in one line.
    fn good_but(&self, code: i32, part: &str) {
        assert_eq!((self.code, self.err.lines().count()), (code, 1), "{}: {}", self.asked, self.err);
        assert!(self.err.contains(part) && !self.out.is_empty(), "{}: {}", self.asked, self.err);
    }

    /// It failed with this code, in one line, and printed nothing else.
    fn told(&self, code: i32, part: &str) {
        assert_eq!(self.code, code, "{}: {}", self.asked, self.err);
        assert!(
            self.err.starts_with("windlass: ") && self.err.contains(part),
            "{}: {part:?} in {}",
            self.asked,
            self.err
        );
        assert_eq!(self.err.lines().count(), 1, "{}", self.err);
        assert_eq!(self.out, "", "it prints only to standard error");
    }
}
