//! `windlass submit --batch`: a task for each line.
//!
//! A file is read twice: first to see that every line is good, so that a mistake changes nothing, then to
//! submit. Standard input can be read only once, so the error says what was submitted before it.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, stdin};
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use serde_json::json;
use windlass::{Client, Error, Name, NewTask, TraceParent, limits};

use crate::failure::Usage;
use crate::input::Source;
use crate::progress::Progress;
use crate::session::Session;
use crate::show::Answer;
use crate::wire::NewTaskJson;

/// Bytes of a line: a payload of the largest size, and room for the rest.
const LINE_BYTES: usize = limits::JSON_BYTES + (64 << 10);

/// Tasks that say nothing else are submitted by `actor`, as part of `traceparent`.
pub(crate) async fn run(
    session: &Session,
    source: &Source,
    actor: Option<String>,
    traceparent: Option<TraceParent>,
) -> Result<Answer> {
    let lines = |reader| {
        let (namespace, actor) = (session.namespace(), actor.clone());
        Lines { reader, number: 0, namespace, actor, traceparent }
    };
    let totals = match source {
        Source::Typed(text) => {
            return Err(
                Usage::new(format!("--batch is {text:?}; expected @FILE, or - for standard input")).into()
            );
        }
        Source::Stdin => submit(session, lines(Box::new(stdin().lock()))).await?,
        Source::File(path) => {
            if path.is_file() {
                lines(open(path)?).by_ref().try_for_each(|line| line.map(drop))?;
            }
            submit(session, lines(open(path)?)).await?
        }
    };
    let Totals { created, existed } = totals;
    Ok(Answer::new(
        format!("{created} created, {existed} existed\n"),
        &json!({ "created": created, "existed": existed }),
    ))
}

fn open(path: &Path) -> Result<Box<dyn BufRead>> {
    let file =
        File::open(path).map_err(|error| Usage::new(format!("batch from {}: {error}", path.display())))?;
    Ok(Box::new(BufReader::new(file)))
}

/// What became of the lines.
#[derive(Debug, Default)]
struct Totals {
    created: u64,
    existed: u64,
}

/// Submits batch after batch. The store is opened when the first is complete.
async fn submit(session: &Session, mut lines: Lines) -> Result<Totals> {
    let (mut totals, mut progress) = (Totals::default(), Progress::new("tasks submitted"));
    loop {
        let done = totals.created + totals.existed;
        let (mut numbers, mut tasks) = (Vec::new(), Vec::new());
        for line in lines.by_ref().take(limits::BATCH) {
            let (number, task) = line.map_err(|error| after(error, done))?;
            numbers.push(number);
            tasks.push(task);
        }
        if tasks.is_empty() {
            return Ok(totals);
        }
        let client = session.client().await?;
        let submitted = send(&client, tasks, &numbers).await.map_err(|error| after(error, done))?;
        let created = submitted.iter().filter(|one| one.created).count();
        totals.created += u64::try_from(created)?;
        totals.existed += u64::try_from(submitted.len() - created)?;
        progress.at(totals.created + totals.existed);
    }
}

async fn send(client: &Client, tasks: Vec<NewTask>, numbers: &[u64]) -> Result<Vec<windlass::Submitted>> {
    let (first, last) = (numbers.first().copied().unwrap_or(0), numbers.last().copied().unwrap_or(0));
    client.submit_all(tasks).await.map_err(|error| match error {
        Error::InBatch { index, rejected } => {
            let line = numbers.get(index).copied().unwrap_or(first);
            anyhow::Error::new(rejected).context(format!("line {line}"))
        }
        error if first == last => anyhow::Error::new(error).context(format!("line {first}")),
        error => anyhow::Error::new(error).context(format!("lines {first} to {last}")),
    })
}

/// An error, and what is in the store nevertheless.
fn after(error: anyhow::Error, done: u64) -> anyhow::Error {
    match done {
        0 => error,
        // The cause is kept, because the exit code follows from it.
        _ => error.context(format!("{done} tasks were submitted, and the rest was not")),
    }
}

/// The tasks of a batch, with the numbers of their lines. Empty lines are left out.
struct Lines {
    reader: Box<dyn BufRead>,
    number: u64,
    namespace: Name,
    actor: Option<String>,
    traceparent: Option<TraceParent>,
}

impl Iterator for Lines {
    type Item = Result<(u64, NewTask)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.number += 1;
            let number = self.number;
            let mut bytes = Vec::new();
            let most = u64::try_from(LINE_BYTES).unwrap_or(u64::MAX) + 1;
            match self.reader.by_ref().take(most).read_until(b'\n', &mut bytes) {
                Err(error) => return Some(Err(anyhow!(error).context(format!("line {number}")))),
                Ok(0) => return None,
                Ok(_) if bytes.len() > LINE_BYTES => {
                    return Some(Err(
                        Usage::new(format!("line {number} is longer than {LINE_BYTES} bytes")).into()
                    ));
                }
                Ok(_) if bytes.trim_ascii().is_empty() => {}
                Ok(_) => {
                    let task = self.task(&bytes).with_context(|| format!("line {number}"));
                    return Some(task.map(|task| (number, task)));
                }
            }
        }
    }
}

impl Lines {
    fn task(&self, line: &[u8]) -> Result<NewTask> {
        let told = |error: serde_json::Error| {
            Usage::new(error.to_string().replace(" at line 1 column ", " at column "))
        };
        let text = std::str::from_utf8(line.trim_ascii()).map_err(|_| Usage::new("it is not UTF-8 text"))?;
        let task = serde_json::from_str::<NewTaskJson>(text).map_err(told)?.task(&self.namespace)?;
        let traceparent = task.traceparent.or(self.traceparent);
        Ok(NewTask { actor: self.actor.clone(), traceparent, ..task })
    }
}
