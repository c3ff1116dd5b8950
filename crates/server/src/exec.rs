//! A program as a handler: the payload on its standard input, the result from its standard output, the log from its standard error.

use std::collections::BTreeSet;
use std::process::{ExitStatus, Stdio};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use windlass::{Context, Lane, Name, TaskError, limits};

/// How long the output of a program is waited for after its end, if something that it started holds on to it.
const LINGER: Duration = Duration::from_secs(1);

/// The exit code that asks to be run again: `EX_TEMPFAIL`.
const TRY_AGAIN: i32 = 75;

/// `KIND=COMMAND`, as it is typed.
#[derive(Clone, Debug)]
pub(crate) struct Exec {
    pub(crate) kind: Name,
    pub(crate) command: String,
}

impl FromStr for Exec {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let shape = || format!("{text:?} is not KIND=COMMAND, such as 'email:send=./send.sh'");
        let (kind, command) = text.split_once('=').ok_or_else(shape)?;
        if command.trim().is_empty() {
            return Err(shape());
        }
        let kind = Name::kind(kind).map_err(|invalid| invalid.to_string())?;
        Ok(Self { kind, command: command.into() })
    }
}

/// The programs that run, each with whatever it started, so that none is left behind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Programs(Arc<Mutex<BTreeSet<i32>>>);

impl Programs {
    /// Kills all of them at once.
    pub(crate) fn kill_all(&self) {
        for group in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            send(*group, Signal::KILL);
        }
    }

    fn enter(&self, child: &Child) -> Option<Group> {
        let id = i32::try_from(child.id()?).ok()?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        Some(Group { id, programs: self.clone() })
    }
}

/// A program and what it started. What is left of it when this is dropped is killed.
struct Group {
    id: i32,
    programs: Programs,
}

impl Drop for Group {
    fn drop(&mut self) {
        send(self.id, Signal::KILL);
        self.programs.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

fn send(group: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(group) {
        // It may be gone already, which is what is wanted.
        let _ = kill_process_group(pid, signal);
    }
}

/// Runs `command` for a task. Exit code 0 is done, 75 try again, any other fails; one of `again` tries again too.
pub(crate) async fn run(
    context: Context,
    command: &str,
    again: &[i32],
    programs: Programs,
) -> Result<Value, TaskError> {
    let mut child =
        spawn(&context, command).map_err(|error| TaskError::retry(format!("{command:?}: {error}")))?;
    let group = programs.enter(&child);
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let mut running = std::pin::pin!(async {
        let feeding = feed(stdin, context.payload().as_str());
        let talking = async { tokio::join!(read(stdout), keep_log(&context, stderr)) };
        let mut talking = std::pin::pin!(talking);
        let (status, early) = tokio::select! {
            biased;
            output = &mut talking => (child.wait().await, Some(output)),
            (status, ()) = async { tokio::join!(child.wait(), feeding) } => (status, None),
        };
        let output = match early {
            Some(output) => output,
            None => tokio::time::timeout(LINGER, talking).await.unwrap_or_default(),
        };
        (status, output)
    });
    let (status, (output, complaint)) = tokio::select! {
        biased;
        ended = &mut running => ended,
        _ = context.stopped() => {
            if let Some(group) = &group {
                send(group.id, Signal::TERM);
            }
            running.await
        }
    };
    decide(status?, &output, &complaint, again)
}

fn spawn(context: &Context, command: &str) -> std::io::Result<Child> {
    let task = context.task();
    let entity = task.spec.lane.as_ref().and_then(Lane::entity);
    Command::new("sh")
        .args(["-c", command])
        .env("WINDLASS_TASK_ID", context.id().to_string())
        .env("WINDLASS_KIND", &*task.spec.kind)
        .env("WINDLASS_QUEUE", &*task.spec.queue)
        .env("WINDLASS_NAMESPACE", &*task.spec.namespace)
        .env("WINDLASS_ATTEMPT", context.attempt().to_string())
        .env("WINDLASS_LEASE", context.lease().to_string())
        .env("WINDLASS_ENTITY", entity.map(|entity| entity.to_string()).unwrap_or_default())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
}

/// Gives the payload. A program that does not read it is not at fault.
async fn feed(stdin: Option<ChildStdin>, payload: &str) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(payload.as_bytes()).await;
    }
}

/// What the program writes, up to one byte more than a result may have; the rest is read and dropped, so that the program can go on.
async fn read(stdout: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut output = Vec::new();
    if let Some(mut stdout) = stdout {
        let most = u64::try_from(limits::JSON_BYTES).unwrap_or(u64::MAX) + 1;
        let _ = (&mut stdout).take(most).read_to_end(&mut output).await;
        let _ = tokio::io::copy(&mut stdout, &mut tokio::io::sink()).await;
    }
    output
}

/// Keeps the lines that the program writes as the attempt's log; returns the last one.
async fn keep_log(context: &Context, stderr: Option<impl AsyncRead + Unpin>) -> String {
    let mut last = String::new();
    let Some(stderr) = stderr else { return last };
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    // A line without end is kept in pieces.
    let most = u64::try_from(limits::LINE_BYTES).unwrap_or(u64::MAX);
    while (&mut reader).take(most).read_until(b'\n', &mut line).await.is_ok_and(|read| read > 0) {
        let text = String::from_utf8_lossy(&line);
        context.log(text.trim_end());
        if !text.trim().is_empty() {
            last = text.trim().into();
        }
        line.clear();
    }
    last
}

/// What the end of a program means to its task.
fn decide(status: ExitStatus, output: &[u8], complaint: &str, again: &[i32]) -> Result<Value, TaskError> {
    let because = if complaint.is_empty() { String::new() } else { format!(": {complaint}") };
    match status.code() {
        Some(0) if output.len() > limits::JSON_BYTES => {
            let most = limits::JSON_BYTES;
            Err(TaskError::fail(format!("the program wrote more than {most} bytes to its standard output")))
        }
        Some(0) => {
            let text = String::from_utf8_lossy(output);
            let text = text.trim_end();
            Ok(match text.is_empty() {
                true => Value::Null,
                false => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.into())),
            })
        }
        Some(code) if code == TRY_AGAIN || again.contains(&code) => {
            Err(TaskError::retry(format!("the program asked to be run again (exit code {code}){because}")))
        }
        Some(code) => Err(TaskError::fail(format!("the program failed with exit code {code}{because}"))),
        None => Err(TaskError::retry(format!("the program was killed ({status}){because}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_and_command_are_told_apart() {
        let exec: Exec = "email:send=./send.sh --to=ada".parse().unwrap();
        assert_eq!((&*exec.kind, &*exec.command), ("email:send", "./send.sh --to=ada"));
        for bad in ["", "x", "=ls", "a b=ls", "a=", "a= "] {
            assert!(bad.parse::<Exec>().is_err(), "{bad}");
        }
    }
}
