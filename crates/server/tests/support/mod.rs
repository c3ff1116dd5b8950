//! The program in a directory of its own, beside other programs. Whatever a test waits for has a deadline,
//! and is a signal: a line, a byte in a pipe, the end of a process.
#![allow(dead_code, reason = "not every test needs all of it")]

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, openat};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, pidfd_open, waitid};
use serde_json::Value;
use tempfile::TempDir;

/// Longer than anything takes, shorter than a person's patience.
const DEADLINE: Duration = Duration::from_secs(60);

/// A directory for one test, which the program runs in.
pub(crate) struct Place {
    directory: TempDir,
    /// Unless it is a file there.
    store: Option<String>,
    /// What else the program finds in its environment.
    environment: Vec<(&'static str, String)>,
}

/// What a run of the program said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), store: None, environment: Vec::new() }
    }

    /// The program finds this address in its environment.
    pub(crate) fn with_store(address: impl Into<String>) -> Self {
        Self { store: Some(address.into()), ..Self::new() }
    }

    /// The program also finds this in its environment.
    pub(crate) fn with(mut self, variable: &'static str, value: impl Into<String>) -> Self {
        self.environment.push((variable, value.into()));
        self
    }

    /// The server that the program works through, if it does.
    pub(crate) fn server(&self) -> Option<&str> {
        self.environment.iter().find(|(name, _)| *name == "WINDLASS_SERVER").map(|(_, url)| &**url)
    }

    /// The address that the program finds in its environment.
    pub(crate) fn store_address(&self) -> &str {
        self.store.as_deref().unwrap()
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap()
    }

    /// What is in the directory.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// A named pipe.
    pub(crate) fn fifo(&self, name: &str) -> Fifo {
        let path = self.path().join(name);
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        Fifo(File::options().read(true).write(true).open(path).unwrap())
    }

    /// A named pipe that takes no more: whoever writes to it waits. Given to the one who is to wait.
    pub(crate) fn full_fifo(&self, name: &str) -> File {
        let Fifo(pipe) = self.fifo(name);
        let open = |flags| openat(CWD, self.path().join(name), flags, Mode::empty()).unwrap();
        let mut filler = File::from(open(OFlags::WRONLY | OFlags::NONBLOCK));
        while filler.write(&[b'\n'; 4096]).is_ok() {}
        while filler.write(b"\n").is_ok() {}
        // For reading and writing, so that nobody is told that the reader is gone.
        let full = File::from(open(OFlags::RDWR));
        drop(pipe);
        full
    }

    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.path())
            .env_remove("WINDLASS_STORE")
            .env_remove("TRACEPARENT")
            .env_remove("OTEL_EXPORTER_OTLP_ENDPOINT")
            .env_remove("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
            .env_remove("WINDLASS_SERVER")
            .env_remove("WINDLASS_TOKEN")
            .env("WINDLASS", env!("CARGO_BIN_EXE_windlass"))
            .env("USER", "grace")
            .stdin(Stdio::null());
        command.envs(self.store.iter().map(|address| ("WINDLASS_STORE", address)));
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs the program to its end, whatever that is.
    pub(crate) fn run<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Said {
        Said::of(self.command(env!("CARGO_BIN_EXE_windlass")).args(arguments).output().unwrap())
    }

    /// Runs the program with `--json`; it succeeds and prints one JSON value.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let said = self.run(&[arguments, &["--json"]].concat());
        assert_eq!((said.code, &*said.err), (0, ""), "{}", said.out);
        said.json()
    }

    /// Submits and gives the id.
    pub(crate) fn submit(&self, arguments: &[&str]) -> String {
        self.json(&[&["submit"], arguments].concat())["id"].as_str().unwrap().into()
    }

    /// Submits so many tasks of one kind.
    pub(crate) fn submit_many(&self, count: usize, kind: &str, payload: impl Fn(usize) -> Value) {
        let line = |n| format!("{}\n", serde_json::json!({ "kind": kind, "payload": payload(n) }));
        self.file("batch.jsonl", (0..count).map(line).collect::<String>());
        assert_eq!(self.json(&["submit", "--batch", "@batch.jsonl"])["created"], count);
    }

    /// All tasks, newest first.
    pub(crate) fn tasks(&self) -> Vec<Value> {
        self.json(&["task", "list"])["tasks"].as_array().unwrap().clone()
    }

    pub(crate) fn task(&self, id: &str) -> Value {
        self.json(&["task", "get", id])
    }

    /// Works off everything, with these arguments; succeeds.
    pub(crate) fn drain(&self, arguments: &[&str]) -> Said {
        let mut running = self.work(&[arguments, &["--drain"]].concat());
        let said = running.end();
        assert_eq!(said.code, 0, "{}", said.err);
        said
    }

    /// The program, which hears every signal: tests that run under `nohup`, or in the background of a shell,
    /// inherit ignored ones.
    pub(crate) fn program(&self) -> Command {
        let mut command = self.command("env");
        command.args(["--default-signal", env!("CARGO_BIN_EXE_windlass")]);
        command
    }

    /// The program, started by a parent that ignores every signal it can: a shell in the background, `nohup`,
    /// or a careless supervisor.
    pub(crate) fn program_of_deaf_parent(&self) -> Command {
        let mut command = self.command("env");
        command.args(["--ignore-signal", env!("CARGO_BIN_EXE_windlass")]);
        command
    }

    /// Starts a worker and waits until it works.
    pub(crate) fn work(&self, arguments: &[&str]) -> Running {
        let mut running = Running::start(self.program().arg("work").args(arguments));
        running.until(" takes ");
        running
    }
}

impl Said {
    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("what is printed is UTF-8");
        Self {
            code: output.status.code().expect("it ends by itself"),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    /// The one JSON value that was printed.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).expect("one JSON value and nothing else")
    }

    /// It failed with this code, in one line, and printed nothing else.
    pub(crate) fn told(&self, code: i32, part: &str) {
        assert_eq!(self.code, code, "{}", self.err);
        assert!(self.err.starts_with("windlass: ") && self.err.contains(part), "{part:?} in {}", self.err);
        assert_eq!(self.err.lines().count(), 1, "{}", self.err);
        assert_eq!(self.out, "", "it prints only to standard error");
    }
}

/// A program that goes on beside the test. Killed when it is dropped.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    heard: String,
    out: Option<std::thread::JoinHandle<String>>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let (stderr, mut stdout) = (child.stderr.take().unwrap(), child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let out = std::thread::spawn(move || {
            let mut out = String::new();
            stdout.read_to_string(&mut out).unwrap();
            out
        });
        Self { child, lines, heard: String::new(), out: Some(out) }
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Waits for a line with this part in it on standard error.
    pub(crate) fn until(&mut self, part: &str) -> String {
        loop {
            let Ok(line) = self.lines.recv_timeout(DEADLINE) else {
                panic!("{part:?} was not said:\n{}", self.heard);
            };
            self.heard += &format!("{line}\n");
            if line.contains(part) {
                return line;
            }
        }
    }

    /// Sends a signal. After `STOP` it waits until the process has stopped: until one of its threads has
    /// handled the signal, the others go on.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid()).unwrap();
        kill_process(pid, signal).unwrap();
        if signal == Signal::STOP {
            waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED).unwrap();
        }
    }

    /// Waits until it ends by itself.
    pub(crate) fn end(&mut self) -> Said {
        gone(self.pid());
        let status = self.child.wait().unwrap();
        self.heard.extend(self.lines.iter().map(|line| line + "\n"));
        let out = self.out.take().unwrap().join().unwrap();
        Said { code: status.code().unwrap_or(-1), out, err: std::mem::take(&mut self.heard) }
    }

    /// Kills it without warning.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn within_deadline(ready: impl AsFd) -> bool {
    let deadline = Timespec::try_from(DEADLINE).unwrap();
    poll(&mut [PollFd::new(&ready, PollFlags::IN)], Some(&deadline)).unwrap() == 1
}

/// Waits until a process has ended.
pub(crate) fn gone(pid: i32) {
    // One that is not there any more has.
    if let Ok(process) = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()) {
        assert!(within_deadline(process), "process {pid} goes on");
    }
}

/// A pipe between a test and programs. A program's `read x < FIFO` waits for [`Fifo::open`]; [`Fifo::line`]
/// waits for a program's `echo > FIFO`.
pub(crate) struct Fifo(File);

impl Fifo {
    pub(crate) fn line(&mut self) -> String {
        let (mut line, mut byte) = (Vec::new(), [0]);
        loop {
            assert!(within_deadline(&self.0), "nothing came");
            self.0.read_exact(&mut byte).unwrap();
            if byte == *b"\n" {
                return String::from_utf8(line).unwrap();
            }
            line.extend(byte);
        }
    }

    /// The number that a program tells, such as a process id.
    pub(crate) fn number(&mut self) -> i32 {
        self.line().trim().parse().unwrap()
    }

    pub(crate) fn open(&mut self) {
        self.0.write_all(b"go\n").unwrap();
    }
}
