//! A program as a handler: the payload on its standard input, the result from its standard output, the log
//! from its standard error.

use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::str::FromStr;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::Signal;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};
use windlass::{Context, Json, Lane, Name, Place, TaskError, Workflow, limits};

use crate::programs::{Group, Programs};
use crate::session::Environment;
use crate::streams::{LastLines, Log, Output, feed};
use crate::trace;

/// How long the output of a program is waited for after its end, if something that it started holds on to it.
pub(crate) const LINGER: Duration = Duration::from_secs(1);

/// How soon what is left of a program that was asked to end is looked at again, at first.
const LOOK: Duration = Duration::from_millis(20);

/// How long a task is put off when the machine has no room for another program.
const NO_ROOM: Duration = Duration::from_secs(1);

/// The exit code that asks to be run again: `EX_TEMPFAIL`.
const TRY_AGAIN: i32 = 75;

/// The exit code that says that running again is of no use: `EX_DATAERR`.
const NEVER_AGAIN: i32 = 65;

/// A program begins when it is told to, which is when whoever is to end it knows of it; and never, if the
/// worker dies before.
const GATE: &str = r#"read -r go && exec sh -c "$1""#;

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

/// What programs are run with.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) programs: Programs,
    /// Exit codes that mean: try again.
    pub(crate) again: Vec<i32>,
    /// How long a program may go on after it was asked to end.
    pub(crate) patience: Duration,
    /// What programs find in their environment, and what they do not.
    pub(crate) environment: Environment,
    /// Where programs run; where the worker does, if absent.
    pub(crate) directory: Option<PathBuf>,
    /// Where the last line of each program is left for somebody who watches.
    pub(crate) lines: Option<LastLines>,
}

/// Runs the program that a step of a workflow is: [`run`], but a text keeps all of its blanks except the last
/// end of line.
pub(crate) async fn run_step(context: &Context, setup: &Setup) -> Result<Json, TaskError> {
    let Some(command) = context.step().and_then(|step| step.run.as_deref()) else {
        return Err(TaskError::fail("only a step of a workflow can be a program"));
    };
    start(context, command, setup, |text| text.strip_suffix('\n').unwrap_or(text)).await
}

/// Runs `command` for a task. Exit code 0 is done, 75 or one of [`Setup::again`] try again, 65 fails for
/// good. So does any other, unless the task is a step of a workflow that says when it is tried again.
pub(crate) async fn run(context: &Context, command: &str, setup: &Setup) -> Result<Json, TaskError> {
    start(context, command, setup, str::trim_end).await
}

async fn start(
    context: &Context,
    command: &str,
    setup: &Setup,
    trim: fn(&str) -> &str,
) -> Result<Json, TaskError> {
    if !context.holds_lease() {
        return Err(TaskError::retry("not started: another worker may have the task"));
    }
    let (mut child, group) = setup
        .programs
        .start(&mut program(context, command, setup))
        .map_err(|error| not_started(context, command, &error))?;
    let (mut output, mut log) = (Output::default(), Log::new(context, setup.lines.as_ref()));
    let status = attend(&mut child, &group, context, setup.patience, &mut output, &mut log).await;
    drop(group);
    if setup.programs.are_killed() {
        // Nothing is reported of what was killed with the worker. It is the next worker's.
        std::future::pending::<()>().await;
    }
    let complaint = log.end();
    let says_retry = context.definition().zip(context.step()).is_some_and(|(it, step)| it.says_retry(step));
    decide(status?, &output, &complaint, &setup.again, says_retry, trim)
}

fn program(context: &Context, command: &str, setup: &Setup) -> Command {
    let task = context.task();
    let entity = task.spec.lane.as_ref().and_then(Lane::entity);
    let step = context.step().map(|step| Workflow::place_name(&step.name, Place::of(task.id)));
    let mut program = Command::new("sh");
    for name in &setup.environment.unset {
        program.env_remove(name);
    }
    program
        .args(["-c", GATE, "sh", command])
        .env("WINDLASS_TASK_ID", context.id().to_string())
        .env("WINDLASS_KIND", &*task.spec.kind)
        .env("WINDLASS_QUEUE", &*task.spec.queue)
        .env("WINDLASS_NAMESPACE", &*task.spec.namespace)
        .env("WINDLASS_ATTEMPT", context.attempt().to_string())
        .env("WINDLASS_LEASE", context.lease().to_string())
        .env("WINDLASS_ENTITY", entity.map(|entity| entity.to_string()).unwrap_or_default())
        .envs(setup.environment.set.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    for (name, value) in [
        ("WINDLASS_TASK", step.as_ref().map(|_| context.id().to_string())),
        ("WINDLASS_WORKFLOW", context.workflow().map(|id| id.to_string())),
        ("WINDLASS_STEP", step),
        (trace::VARIABLE, context.traceparent().map(|traceparent| traceparent.to_string())),
    ] {
        // This worker may itself be the program of a step, or part of a trace, which its programs are not.
        match value {
            Some(value) => program.env(name, value),
            None => program.env_remove(name),
        };
    }
    if let Some(directory) = &setup.directory {
        program.current_dir(directory);
    }
    program
}

/// A machine that has no room for another program is not the task's fault: that costs no attempt.
fn not_started(context: &Context, command: &str, error: &io::Error) -> TaskError {
    let why = format!("{command:?} could not be started: {error}");
    match Errno::from_io_error(error) {
        Some(Errno::MFILE | Errno::NFILE | Errno::AGAIN | Errno::NOMEM) => {
            context.log(why);
            TaskError::snooze(NO_ROOM)
        }
        _ => TaskError::retry(why),
    }
}

/// Talks with a program until it has ended.
async fn attend(
    child: &mut Child,
    group: &Group,
    context: &Context,
    patience: Duration,
    output: &mut Output,
    log: &mut Log<'_>,
) -> io::Result<ExitStatus> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    // Asked when the program stands ready: it may have taken long to come here.
    let mut feeding = pin!(feed(stdin, context.payload().as_str(), || context.holds_lease()));
    let mut reading = pin!(async { tokio::join!(output.read(stdout), log.read(stderr)) });
    let mut ending = pin!(end(child, group, context, patience));
    let (mut is_fed, mut is_read) = (false, false);
    let status = loop {
        // In this order: a program that writes without end must neither go hungry nor go on for ever.
        tokio::select! {
            biased;
            status = &mut ending => break status,
            () = &mut feeding, if !is_fed => is_fed = true,
            _ = &mut reading, if !is_read => is_read = true,
        }
    };
    if !is_read {
        let _ = timeout(LINGER, reading).await;
    }
    status
}

/// Waits for the end of a program; asks for it if the task is to stop, and kills the program if it does not
/// listen.
async fn end(
    child: &mut Child,
    group: &Group,
    context: &Context,
    patience: Duration,
) -> io::Result<ExitStatus> {
    tokio::select! {
        biased;
        status = child.wait() => return status,
        _ = context.stopped() => group.send(Signal::TERM),
    }
    let in_order = async {
        let status = child.wait().await;
        // A shell ends at once; what it has started may still have something to put in order.
        let mut pause = LOOK;
        while group.is_there() {
            sleep(pause).await;
            pause = (pause * 2).min(LOOK * 10);
        }
        status
    };
    if let Ok(status) = timeout(patience, in_order).await {
        return status;
    }
    group.send(Signal::KILL);
    child.wait().await
}

/// What the end of a program means to its task.
fn decide(
    status: ExitStatus,
    output: &Output,
    complaint: &str,
    again: &[i32],
    says_retry: bool,
    trim: fn(&str) -> &str,
) -> Result<Json, TaskError> {
    let because = if complaint.is_empty() { String::new() } else { format!(": {complaint}") };
    match status.code() {
        Some(0) => result(output, trim),
        Some(code) if code == TRY_AGAIN || again.contains(&code) => {
            Err(TaskError::retry(format!("the program asked to be run again (exit code {code}){because}")))
        }
        Some(code) => {
            let error = format!("the program failed with exit code {code}{because}");
            Err(if says_retry && code != NEVER_AGAIN {
                TaskError::retry(error)
            } else {
                TaskError::fail(error)
            })
        }
        None => Err(TaskError::retry(format!("the program was killed ({status}){because}"))),
    }
}

/// What was written: JSON to the letter, if it is JSON, and otherwise a text.
fn result(output: &Output, trim: fn(&str) -> &str) -> Result<Json, TaskError> {
    let Some(text) = output.text() else {
        let most = limits::JSON_BYTES;
        return Err(TaskError::fail(format!(
            "the program wrote more than {most} bytes to its standard output"
        )));
    };
    if trim(&text).is_empty() {
        return Ok(Json::default());
    }
    Json::result(text.trim_end()).or_else(|_| {
        let quoted = serde_json::to_string(trim(&text))?;
        Json::result(&quoted).map_err(|invalid| TaskError::fail(format!("the program's output: {invalid}")))
    })
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
