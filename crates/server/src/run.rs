//! `windlass run FILE`: a workflow file, run here and to its end, with no server.
//!
//! The file is checked ([`file`]), its definition is kept in a store beside it, and it is decided which run
//! this is ([`which`]): one that was stopped or killed goes on. A worker in this process runs the programs;
//! what happens, to it and to the workflows within it ([`flow`]), is read from the store ([`follow`]) as
//! events ([`event`]) and told to whoever listens ([`voice`]): a tree on a terminal ([`view`], [`tree`],
//! [`screen`]), lines, or JSON. The end is a [`summary`].

mod event;
mod file;
mod flow;
mod follow;
mod screen;
mod summary;
mod tree;
mod view;
mod voice;
mod which;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use clap::Args;
use clap::builder::RangedU64ValueParser;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::timeout;
use windlass::flow::{Document, check_input};
use windlass::{
    Action, Client, Context, Definition, Error, Json, Name, Next, Outcome, RUN, RunningWorker, Step,
    TaskError, WORKFLOW, Windlass, WorkerBuilder, WorkerId,
};

use crate::address::sqlite_path;
use crate::exec::{self, Setup};
use crate::failure::{Interrupted, Usage};
use crate::input::Source;
use crate::programs::Programs;
use crate::session::Session;
use crate::show::Answer;
use crate::signals::Signals;
use crate::streams::LastLines;
use crate::work::farewell;
use follow::Follower;
use summary::Summary;
use voice::Voice;
use which::{Chosen, Wish};

/// How long this worker may be silent. Short, so that what it held when it was killed comes back soon even
/// where it cannot be seen that it is gone.
const DEAD_AFTER: Duration = Duration::from_secs(10);

/// How long a program may go on after it was asked to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a run that is killed by its user tries to say that it is gone.
const FAREWELL: Duration = Duration::from_secs(1);

/// How long nothing is looked at although nothing was heard.
const POLL: Duration = Duration::from_secs(1);

/// Between two looks, at least. A large workflow is looked at less often: looking takes a sixth of the time
/// at most.
const REST: Duration = Duration::from_millis(50);

/// Between two pictures of the tree.
const TICK: Duration = Duration::from_millis(100);

/// Run a workflow file here, to its end, with no server
///
/// Steps with `run` are programs: each is given its input as JSON on its standard input, and what it writes
/// to its standard output is its result: JSON if it is, text otherwise. What it writes to its standard error
/// is its log. Exit code 0 means done, 75 try again, any other that it failed for good; where the step or the
/// defaults say `retry`, any but 65 is tried again. Programs run in the directory of the file.
///
/// What happens is kept in a file beside it: flow.windlass.db for flow.yaml. Stopped with Ctrl-C, or killed,
/// the same command with the same file and input goes on where it stopped. A run whose end was shown is
/// followed by a new one; until then the same command shows that end. (Its durability is normal: the last
/// moments before a power cut may be lost. --store sqlite:PATH gives the full one.)
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  windlass run flow.yaml
  windlass run flow.yaml --input '{\"day\": \"2030-01-31\"}'
  windlass run flow.yaml --input @input.json --json
  windlass run flow.yaml --retry

The program finds WINDLASS_TASK, WINDLASS_ATTEMPT, WINDLASS_WORKFLOW and WINDLASS_STEP in its environment, and what
`windlass work` gives; with --pass-store also the store.

Exit codes: 0 complete, 1 failed, blocked or cancelled, 2 bad file or not understood, 130 stopped by Ctrl-C.")]
pub(crate) struct RunArgs {
    /// The workflow: YAML or JSON
    file: PathBuf,
    /// Its input: JSON, @FILE, or - for standard input [default: {}]
    #[arg(long, value_name = "JSON")]
    input: Option<Source>,
    /// Start over: cancel an unfinished run with this input
    #[arg(long)]
    fresh: bool,
    /// Go on with the last run that failed: try its failed steps again
    #[arg(long, conflicts_with = "fresh")]
    retry: bool,
    /// How many programs run at once [default: two for each processor]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    pool: Option<usize>,
    /// Let programs find the store in their environment, as WINDLASS_STORE
    #[arg(long)]
    pass_store: bool,
}

impl RunArgs {
    /// A file beside the workflow's.
    pub(crate) fn default_store(&self) -> Result<String> {
        let path = self.file.with_extension("windlass.db");
        // What follows a question mark in an address is not part of the path.
        match path.to_str().filter(|path| !path.contains('?')) {
            Some(path) => Ok(format!("sqlite:{path}?durability=normal")),
            None => {
                let told =
                    format!("no store can be named after {}; name one with --store", self.file.display());
                Err(Usage::new(told).into())
            }
        }
    }

    /// The command that tries what failed again, as it would be typed.
    fn retry(&self, session: &Session) -> String {
        let mut words = vec![self.file.display().to_string()];
        let input = self.input.as_ref().map(|input| match input {
            Source::Typed(text) => text.clone(),
            Source::File(path) => format!("@{}", path.display()),
            Source::Stdin => "-".into(),
        });
        words.extend(input.into_iter().flat_map(|input| ["--input".into(), input]));
        // An address with a password is not repeated.
        let given = session.address();
        if sqlite_path(given).is_some() && self.default_store().is_ok_and(|store| store != given) {
            words.extend(["--store".into(), given.into()]);
        }
        if session.is_remote() {
            words.extend(["--server".into(), given.into()]);
        }
        words.extend(
            session.given_namespace().iter().flat_map(|name| ["--namespace".into(), name.to_string()]),
        );
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        format!("windlass run {} --retry", words.join(" "))
    }

    fn pool(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, Into::into);
        self.pool.unwrap_or(cores * 2)
    }
}

/// A word as a shell reads it back.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@=+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Runs the file to its end, or until a signal comes.
pub(crate) async fn run(session: &Session, args: &RunArgs) -> Result<Answer> {
    let signals = Signals::listen()?;
    let document = file::read(&args.file)?;
    let input = match &args.input {
        Some(source) => source.json("input")?,
        None => Json::new("input", "{}")?,
    };
    check_input(document.definition(), input.as_str())?;
    let path = std::path::absolute(&args.file)?;
    // The same file by another name is the same file.
    let path = path.canonicalize().unwrap_or(path);
    let mut voice = Voice::new(session.is_json(), session.paint());
    let telemetry = voice::listen_to_logs(&voice)?;
    let windlass = session.open().await?;
    let run =
        Run { session, args, windlass, client: session.client().await?, path, lines: LastLines::default() };
    let ran = run.ran(&document, &input, &mut voice, signals).await;
    telemetry.end().await;
    voice.end();
    let (chosen, answer) = ran?;
    session.show(&answer)?;
    // From here on the same command starts a new run.
    which::set_unshown(&run.client, &session.namespace(), chosen.id, false).await?;
    Ok(answer.shown())
}

/// One run of the command.
struct Run<'s> {
    session: &'s Session,
    args: &'s RunArgs,
    windlass: &'s Windlass,
    client: Client,
    path: PathBuf,
    lines: LastLines,
}

impl Run<'_> {
    async fn ran(
        &self,
        document: &Document,
        input: &Json,
        voice: &mut Voice,
        signals: Signals,
    ) -> Result<(Chosen, Answer)> {
        let begun = Instant::now();
        let is_private = self.args.default_store().is_ok_and(|store| store == self.session.address());
        let id = WorkerId::stored(format!("{}{}", windlass::worker_id().as_str(), which::MARK));
        if sqlite_path(self.session.address()).is_some() {
            which::bury_the_dead(&**self.windlass.store(), &id).await?;
        }
        let definition = document.definition();
        let version = which::define(&self.client, definition, is_private, voice).await?;
        let wish =
            Wish::new(&self.path, &definition.name, &version, input, self.session.namespace(), is_private);
        let chosen = match (self.args.retry, self.args.fresh) {
            (true, _) => wish.retried(&self.client).await?,
            (false, fresh) => wish.started(&self.client, fresh, voice).await?,
        };
        which::set_unshown(&self.client, &self.session.namespace(), chosen.id, true).await?;
        self.warn(definition, voice).await?;
        voice.begin(&chosen, self.session.address());
        let programs = Programs::new()?;
        let started = Arc::new(Notify::new());
        let worker = self.worker(definition, id, &programs, &started)?.start().await?;
        let ended = self.watched(&chosen, &worker, &programs, &started, voice, signals).await?;
        let Some(last) = ended else {
            let told = "stopped; the same command goes on where it stopped";
            voice.interrupted(&chosen);
            return Err(Interrupted(told.into()).into());
        };
        let workflow = &last.flow.inspection.record.workflow;
        let took = match chosen.is_over {
            true => workflow.finished_at.unwrap_or(workflow.updated_at).since(workflow.created_at),
            false => begun.elapsed(),
        };
        let summary = Summary::of(&self.client, &last, took).await?;
        let answer = summary.answer(&self.args.retry(self.session), self.session.paint());
        Ok((chosen, answer))
    }

    /// Says what nobody here can do.
    async fn warn(&self, definition: &Definition, voice: &mut Voice) -> Result<()> {
        let now = self.windlass.store().now().await?;
        let workers = self.client.workers().await?;
        let is_done_elsewhere =
            |kind: &Name| workers.iter().any(|worker| worker.is_alive(now) && worker.kinds.contains(kind));
        let mut kinds: BTreeSet<&str> = BTreeSet::new();
        let mut children: BTreeSet<&Name> = BTreeSet::new();
        for step in &definition.steps {
            match step.action() {
                Some(Action::Task(kind)) if !is_done_elsewhere(kind) => drop(kinds.insert(kind)),
                Some(Action::Workflow(child)) => drop(children.insert(&child.name)),
                _ => {}
            }
        }
        if !kinds.is_empty() {
            let kinds: Vec<&str> = kinds.into_iter().collect();
            voice.warn(&format!(
                "no worker does {}; steps of such kinds wait for `windlass work {} --exec KIND=COMMAND`",
                kinds.join(", "),
                self.session.option()
            ));
        }
        for child in children {
            if self.client.definition(child, None).await?.is_none() {
                voice.warn(&format!("the store has no definition {:?}, which a step is", &**child));
            }
        }
        Ok(())
    }

    fn worker(
        &self,
        definition: &Definition,
        id: WorkerId,
        programs: &Programs,
        started: &Arc<Notify>,
    ) -> Result<WorkerBuilder> {
        let setup = Arc::new(Setup {
            programs: programs.clone(),
            again: Vec::new(),
            patience: PATIENCE,
            environment: self.session.environment(self.args.pass_store),
            directory: self.path.parent().map(Path::to_owned),
            lines: Some(self.lines.clone()),
        });
        let queues = queues(definition);
        let worker = self
            .windlass
            .worker()
            .id(id)
            .namespace(self.session.namespace())
            .queues(queues.iter().map(|queue| &**queue))
            .pool(self.args.pool())
            // Whoever stops it wants it to stop; it goes on where it stopped.
            .grace(Duration::ZERO)
            .patience(PATIENCE + exec::LINGER * 3)
            .dead_after(DEAD_AFTER)
            .handle_kind(RUN, |_| async { Ok(Value::Null) })
            .starts_workflows();
        let started = started.clone();
        Ok(worker.around(move |context, next| {
            started.notify_one();
            attempt(context, next, setup.clone())
        }))
    }

    /// Tells what happens until the workflow is settled, and gives the last look; nothing, if it was stopped.
    async fn watched(
        &self,
        chosen: &Chosen,
        worker: &RunningWorker,
        programs: &Programs,
        started: &Notify,
        voice: &mut Voice,
        mut signals: Signals,
    ) -> Result<Option<follow::Look>> {
        let mut follower = Follower::new(self.client.clone(), chosen);
        let mut rings = self.windlass.store().watch();
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let last = loop {
            rings.borrow_and_update();
            let looked = Instant::now();
            let look = match follower.look().await {
                Ok(look) => look,
                Err(error) if is_away(&error) => {
                    voice.warn(&format!("the store is looked at again soon: {error}"));
                    tokio::select! {
                        biased;
                        () = signals.next() => break None,
                        () = tokio::time::sleep(POLL) => continue,
                    }
                }
                Err(error) => return Err(error),
            };
            voice.tell(&look.events);
            voice.show(&look, &self.lines);
            if look.flow.is_settled() {
                break Some(look);
            }
            let rest = looked + looked.elapsed() * 6 + REST;
            // What was just claimed is soon marked as running, and nothing rings then.
            let poll = if look.has_claimed() { rest.max(looked + TICK * 2) } else { rest.max(looked + POLL) };
            let again = async {
                tokio::select! {
                    _ = rings.changed() => {}
                    () = started.notified() => {}
                    () = tokio::time::sleep_until(poll.into()) => {}
                }
                tokio::time::sleep_until(rest.into()).await;
            };
            let mut again = std::pin::pin!(again);
            let goes_on = loop {
                tokio::select! {
                    biased;
                    () = signals.next() => break false,
                    ended = worker.ended() => {
                        ended?;
                        return Err(anyhow!("the worker has ended by itself; the same command goes on"));
                    }
                    () = &mut again => break true,
                    _ = tick.tick(), if voice.draws() => voice.draw(&self.lines),
                }
            };
            if !goes_on {
                break None;
            }
        };
        if last.is_none() {
            let running = programs.count();
            voice.warn(&format!("stopping: {running} running, asked to end; Ctrl-C again kills them"));
        }
        tokio::select! {
            biased;
            stopped = worker.stop() => stopped?,
            () = signals.next() => {
                programs.kill_all();
                let _ = timeout(FAREWELL, farewell(&**self.windlass.store(), worker.id())).await;
                voice.end();
                voice.warn("killed; the same command goes on where it stopped");
                std::process::exit(130);
            }
        }
        Ok(last)
    }
}

/// Whether a store may answer again.
fn is_away(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Error::Unavailable(_) | Error::Unknown(_)))
}

/// The queues that steps which run here are in.
fn queues(definition: &Definition) -> BTreeSet<Name> {
    let queue =
        |step: &Step| step.queue.clone().or_else(|| definition.defaults.queue.clone()).unwrap_or_default();
    let here = definition.steps.iter().filter(|step| matches!(&*step.kind(), RUN | WORKFLOW));
    // Workflows within it are in the usual one, unless they say otherwise.
    here.map(queue).chain([Name::default()]).collect()
}

/// Runs the program of a step. It runs around the handler, not as it: a result is kept to the letter.
async fn attempt(context: Context, next: Next, setup: Arc<Setup>) -> Outcome {
    if &*context.task().spec.kind != RUN {
        return next.run(context).await;
    }
    let ended = exec::run_step(&context, &setup).await;
    ended.map_or_else(TaskError::outcome, |result| Outcome::Completed { result })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_the_shell() {
        for (word, expected) in
            [("a/b.yaml", "a/b.yaml"), ("", "''"), ("a b", "'a b'"), ("it's", r"'it'\''s'")]
        {
            assert_eq!(quoted(word), expected);
        }
    }
}
